"""The same scripts on the simulated Kafka and on a broker: their answers must be equal."""
