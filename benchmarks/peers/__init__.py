"""This project beside other systems that can remove duplicates from a Kafka topic, on one machine."""
