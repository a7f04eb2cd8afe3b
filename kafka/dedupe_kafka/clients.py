"""The classes of the client library that speak to Kafka.

The worker's `ComponentFactory`, the router's `Session` and `Cluster` take them as an argument. Invariant: worker and
router create no client but through one of these, so that tests/simulation can supply a Kafka in memory;
tests/unit/kafka/test_clients.py checks that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from dedupe_kafka.bounded_producer import BoundedProducer

Config = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Clients:
    """The class of each client, to be called with its librdkafka configuration.

    A stand-in has the methods that its caller uses; the library's classes are C types without an interface.
    """

    consumer: Callable[[Config], Any] = Consumer
    producer: Callable[[Config], Any] = BoundedProducer
    admin: Callable[[Config], Any] = AdminClient


CLIENTS: Final = Clients()
"""The classes that speak to a real Kafka."""
