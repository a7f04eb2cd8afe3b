"""The benchmarks of `make bench` and `make bench-pipeline`, a module each."""
