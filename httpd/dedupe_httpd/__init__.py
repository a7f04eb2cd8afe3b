"""Serve HTTP within bounds, with the addresses and logs of a process."""
