"""Instruments of the component, fault and e2e tests, in a folder for each purpose.

They record a history (`checker.history`) and judge it afterwards (`checker.checker`, `checker.routed`): the idea of
Jepsen's Kafka tests. No module of `checker` imports the worker.
"""
