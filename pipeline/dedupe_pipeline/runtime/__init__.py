"""Find Java and the jars that Spark and Kafka need."""
