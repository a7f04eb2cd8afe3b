"""What every part asks of Kafka: clients, topics, and errors by name."""
