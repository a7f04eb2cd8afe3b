"""Read the input, write the output, and ask Kafka about topics."""
