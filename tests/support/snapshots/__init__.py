"""Buckets and small volumes for snapshots, and the damage that a bad disk does."""
