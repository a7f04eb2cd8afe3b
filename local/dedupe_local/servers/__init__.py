"""Servers started on this machine: Kafka and PostgreSQL."""
