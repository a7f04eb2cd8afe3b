"""What a local run asks of Kafka and creates in it, each request bounded in time."""

import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined] # public names
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from dedupe_crds.stream import DedupeStream
from dedupe_local import output_topic
from dedupe_local.errors import TopicUnusable
from dedupe_local.output_topic import Topic
from dedupe_worker.errors import BrokerUnavailable
from dedupe_worker.kafka_client import client_config, kafka_error

_TIMEOUT_SECONDS = 15.0
_POLL_SECONDS = 0.1
_REACHABLE = "check that Kafka runs there and that this machine reaches it"

T = TypeVar("T")


class _Unknown(Exception):
    """There is no topic of that name."""


class _Exists(Exception):
    """There is a topic of that name."""


_KNOWN = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: _Unknown,
    KafkaError.TOPIC_ALREADY_EXISTS: _Exists,
}


class Cluster:
    """A Kafka cluster, reached with the user's client properties.

    Every method raises a `dedupe_worker.errors.WorkerError` when Kafka does not answer or refuses.
    """

    def __init__(self, bootstrap_servers: str, properties: Mapping[str, str] | None = None) -> None:
        self._servers = bootstrap_servers
        self._admin = AdminClient(client_config(bootstrap_servers, properties or {}))

    def ensure_input(self, name: str, partitions: int | None) -> None:
        """Create an input topic if it is absent (4 partitions if not told otherwise).

        Raises:
            TopicUnusable: it is there, with another number of partitions than asked for.
        """
        found = self.topic(name)
        if found is None:
            self._create(name, partitions or 4, 1, {})
        elif partitions not in (None, found.partitions):
            raise TopicUnusable(
                f"Input topic {name} has {found.partitions} partitions already, and --partitions "
                f"says {partitions}: leave it out, or remove the state directory to begin anew."
            )

    def ensure_output(self, stream: DedupeStream) -> tuple[int, list[str]]:
        """Create the output topic, or check it; returns the partition count and warnings.

        Raises:
            TopicUnusable: the input is absent, or the output would lose or alter messages.
        """
        source = self.topic(stream.spec.input.topic)
        if source is None:
            raise TopicUnusable(
                f"Input topic {stream.spec.input.topic} does not exist on {self._servers}: create "
                "it, or correct spec.input.topic."
            )
        max_age = stream.spec.store.window.max_age
        output = self.topic(stream.spec.output.topic)
        if output is not None:
            return source.partitions, output_topic.check(source, output, max_age)
        config = output_topic.config_for(source, max_age)
        self._create(stream.spec.output.topic, source.partitions, source.replication_factor, config)
        return source.partitions, []

    def topic(self, name: str) -> Topic | None:
        """Describe a topic; None if there is none of that name."""
        futures = self._admin.describe_topics(
            TopicCollection([name]), request_timeout=_TIMEOUT_SECONDS
        )
        try:
            found = self._answer(futures[name], f"describing topic {name}")
        except _Unknown:
            return None
        return Topic(
            name=name,
            partitions=len(found.partitions),
            replication_factor=len(found.partitions[0].replicas),
            config=self._config(name),
        )

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]:
        """Return the offset after the last committed record of each partition."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call] # confluent-kafka's, untyped
        asked = {TopicPartition(topic, p): latest for p in range(partitions)}
        futures = self._admin.list_offsets(
            asked,
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=_TIMEOUT_SECONDS,
        )
        action = f"asking for the end offsets of {topic}"
        return {
            where.partition: self._answer(future, action).offset
            for where, future in futures.items()
        }

    def _config(self, name: str) -> dict[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, name)
        futures = self._admin.describe_configs([resource], request_timeout=_TIMEOUT_SECONDS)
        found = self._answer(futures[resource], f"reading the configuration of topic {name}")
        return {key: entry.value for key, entry in found.items() if entry.value is not None}

    def _create(
        self, name: str, partitions: int, replication_factor: int, config: dict[str, str]
    ) -> Topic:
        """Create a topic and wait until the brokers know it.

        One that exists, though the brokers did not know it yet, is taken as it is.
        """
        topic = NewTopic(
            name, num_partitions=partitions, replication_factor=replication_factor, config=config
        )
        futures = self._admin.create_topics([topic], request_timeout=_TIMEOUT_SECONDS)
        with suppress(_Exists):
            self._answer(futures[name], f"creating topic {name}")
        return self._wait_for(name)

    def _wait_for(self, name: str) -> Topic:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            if (topic := self.topic(name)) is not None:
                return topic
            time.sleep(_POLL_SECONDS)
        raise TopicUnusable(
            f"Topic {name} was created on {self._servers}, and the brokers do not know it after "
            f"{_TIMEOUT_SECONDS:.0f} s: look at their logs, and try again."
        )

    def _answer(self, future: Future[T], action: str) -> T:
        """Wait for an answer, its errors named by what a user can do about them."""
        action = f"{action} on {self._servers}"
        try:
            # The client's own bound comes first and knows why; this one is for a client that hangs.
            return future.result(2 * _TIMEOUT_SECONDS)
        except TimeoutError:
            raise BrokerUnavailable(f"{action}: no answer; {_REACHABLE}") from None
        except KafkaException as error:
            if known := _KNOWN.get(error.args[0].code()):
                raise known from error
            named = kafka_error(error, action)
            if isinstance(named, BrokerUnavailable):
                raise BrokerUnavailable(f"{named}; {_REACHABLE}") from error
            raise named from error
