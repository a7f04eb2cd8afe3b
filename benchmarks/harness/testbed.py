"""The environment of a benchmark: its own broker, topics, a scratch directory."""

import time
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined] # public names
    AdminClient,
    NewTopic,
    OffsetSpec,
)

from dedupe_local.servers.kafka import EmbeddedBroker

MAX_MESSAGE_BYTES: Final = 1_048_588  # of every topic; it is Kafka's default

_TIMEOUT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05
_BROKER_HEAP: Final = "1g"
_NOT_YET: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)


def client(bootstrap_servers: str) -> dict[str, Any]:
    """Return the settings of every client: errors are raised, so none are logged."""
    return {"bootstrap.servers": bootstrap_servers, "log_level": 0}


class Testbed:
    """A context manager in which the broker runs. All large files are below `scratch`."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self._broker = EmbeddedBroker(scratch / "broker", heap=_BROKER_HEAP)

    def __enter__(self) -> Self:
        self._broker.start()
        self._admin = AdminClient(client(self.bootstrap_servers))
        return self

    def __exit__(self, *_: object) -> None:
        self._broker.stop()

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT of the broker."""
        return self._broker.bootstrap_servers

    @property
    def broker_pid(self) -> int:
        """The broker's process."""
        return self._broker.pid

    def create_topic(self, hint: str, *, partitions: int = 1, log_append_time: bool = False) -> str:
        """Create a topic under a name that was not used before.

        With `log_append_time` its records carry the time at which the broker appended them.
        """
        name = f"{hint}-{uuid4().hex[:8]}"
        config = {"retention.ms": "-1", "max.message.bytes": str(MAX_MESSAGE_BYTES)}
        if log_append_time:
            config["message.timestamp.type"] = "LogAppendTime"
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        self._admin.create_topics([topic])[name].result(_TIMEOUT_SECONDS)
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not self._has_leaders(
            name, partitions
        ):  # until then every question about the topic is refused
            if time.monotonic() > deadline:
                raise TimeoutError(f"topic {name} has no leader after {_TIMEOUT_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)
        return name

    def delete_topics(self, *names: str) -> None:
        """Delete topics and so free their disk space."""
        for deleted in self._admin.delete_topics(list(names)).values():
            deleted.result(_TIMEOUT_SECONDS)

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """Return the offset after the last record of a partition, committed or not."""
        where = TopicPartition(topic, partition)
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call] # confluent-kafka's, untyped
        found = self._admin.list_offsets(
            {where: latest}, isolation_level=IsolationLevel.READ_UNCOMMITTED
        )[where]
        return int(found.result(_TIMEOUT_SECONDS).offset)

    def _has_leaders(self, topic: str, partitions: int) -> bool:
        found = self._admin.list_topics(topic, timeout=_TIMEOUT_SECONDS).topics[topic].partitions
        return len(found) == partitions and all(each.leader >= 0 for each in found.values())


class GroupOffset:
    """Asks how far a consumer group has read a partition. End it with `close()`."""

    def __init__(self, bootstrap_servers: str, group: str, topic: str, partition: int = 0) -> None:
        self._consumer = Consumer({**client(bootstrap_servers), "group.id": group})
        self._where = TopicPartition(topic, partition)

    def __call__(self) -> int:
        """Return the committed offset; 0 before the first. Raises KafkaException."""
        try:
            found = self._consumer.committed([self._where], timeout=_TIMEOUT_SECONDS)[0]
        except KafkaException as error:
            if error.args[0].code() in _NOT_YET:  # a broker just started has no coordinator at once
                return 0
            raise
        return max(0, found.offset)

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()
