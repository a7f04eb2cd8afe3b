"""One partition's deduplicating process: knows Kafka and RocksDB, and nothing of its surroundings."""
