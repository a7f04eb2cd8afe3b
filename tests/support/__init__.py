"""Instruments of the integration and fault tests, and the judge of what they saw.

Record a history (`history`), judge it afterwards (`checker`, `id_sources`): the idea of Jepsen's
Kafka tests. Nothing that judges imports the worker.
"""
