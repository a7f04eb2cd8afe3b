"""Comparison with other systems that remove duplicates from a Kafka topic."""
