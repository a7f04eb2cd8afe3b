"""Benchmarks of a worker on this machine: speed, latency, memory, recovery.

Run by `make bench` and its variants, never by tests.
"""
