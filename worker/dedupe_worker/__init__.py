"""Deduplicate one partition: a process that knows Kafka and RocksDB only."""
