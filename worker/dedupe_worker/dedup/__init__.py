"""Decide on each record of a batch, and pass it on or drop it."""
