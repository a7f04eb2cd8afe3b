"""The benchmarks of `make bench` and `make bench-pipeline`, one module each."""
