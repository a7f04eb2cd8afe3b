"""Serve status, metrics and admin commands over HTTP."""
