"""Serve HTTP within bounds."""
