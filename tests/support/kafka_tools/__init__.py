"""Kafka's own command line tools, of the version of the tests' broker."""
