"""`kubectl dedupe`: streams and their partitions for people."""
