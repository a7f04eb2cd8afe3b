"""Bring a store up to date with the output topic."""
