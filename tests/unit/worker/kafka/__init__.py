"""Tests of the worker's Kafka clients, on stand-ins of the client library."""
