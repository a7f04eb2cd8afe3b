"""The classes of the client library that speak to Kafka.

`ComponentFactory` takes them as an argument. Invariant: the worker creates no client but through one of these, so that
tests/simulation can supply a Kafka in memory; tests/unit/worker/test_clients.py checks that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

Config = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Clients:
    """The class of each client, to be called with its librdkafka configuration.

    A stand-in has the methods that the worker calls; the library's classes are C types without an interface.
    """

    consumer: Callable[[Config], Any] = Consumer
    producer: Callable[[Config], Any] = Producer
    admin: Callable[[Config], Any] = AdminClient


CLIENTS: Final = Clients()
"""The library's own classes."""
