"""Embedded servers for local runs, the demo and the tests: Kafka and PostgreSQL."""
