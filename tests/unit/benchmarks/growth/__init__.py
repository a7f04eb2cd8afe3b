"""Tests of the benchmark of a growth."""
