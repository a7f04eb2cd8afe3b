"""The Kafka layer of every part: clients, topics, offsets and named errors."""
