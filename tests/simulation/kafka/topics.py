"""The topics of a simulated cluster, by name. A topic that is created anew has another UUID and new logs."""

from typing import Final

from confluent_kafka import Uuid

from tests.simulation.kafka.groups import Groups
from tests.simulation.kafka.log import Changes, PartitionLog
from tests.simulation.kafka.transactions import Coordinator

_DEFAULTS: Final = {
    "cleanup.policy": "delete",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
}
_FIRST_HALF: Final = 0x5A17_0000_0000_4000  # of a UUID of version 4
_SECOND_HALF: Final = -0x7000_0000_0000_0000


class SimTopic:
    """A topic, with one log for each partition."""

    def __init__(
        self,
        name: str,
        topic_id: Uuid,
        partitions: int,
        config: dict[str, str],
        changes: Changes,
    ) -> None:
        self.name = name
        self.id = topic_id
        self._changes = changes
        self.config = _DEFAULTS | config
        self.logs: list[PartitionLog] = []
        self.grow(partitions)

    def grow(self, total: int) -> None:
        """Add partitions, so that there are `total`."""
        self._changes.count += 1
        self.logs += [
            PartitionLog(self.name, number, self._changes)
            for number in range(len(self.logs), total)
        ]

    def number(self, config: str) -> int:
        """Return a setting that is a whole number."""
        return int(self.config[config])


class Topics:
    """The topics that exist."""

    def __init__(self, groups: Groups, coordinator: Coordinator, *, topic_ids: bool) -> None:
        self._groups = groups
        self._coordinator = coordinator
        self._topic_ids = topic_ids
        self._topics: dict[str, SimTopic] = {}
        self._created = 0

    def create(self, name: str, partitions: int, config: dict[str, str]) -> SimTopic:
        """Create a topic. Raises ValueError if it exists."""
        if name in self._topics:
            raise ValueError(f"topic {name} exists")
        self._created += 1
        topic_id = (
            Uuid(_FIRST_HALF, _SECOND_HALF + self._created) if self._topic_ids else Uuid(0, 0)
        )
        self._topics[name] = SimTopic(name, topic_id, partitions, config, self._groups.changes)
        return self._topics[name]

    def delete(self, name: str) -> None:
        """Delete a topic, its records, and the groups' offsets of it."""
        topic = self._topics.pop(name)
        for log in topic.logs:
            log.gone = True
        self._groups.forget_topic(name)
        self._coordinator.forget_topic(topic.logs)

    def get(self, name: str) -> SimTopic:
        """Return a topic that exists."""
        return self._topics[name]

    def find(self, name: str) -> SimTopic | None:
        """Return a topic, if it exists."""
        return self._topics.get(name)

    def log(self, name: str, partition: int) -> PartitionLog | None:
        """Return the log of a partition, if it exists."""
        topic = self._topics.get(name)
        return topic.logs[partition] if topic and partition < len(topic.logs) else None

    def names(self) -> list[str]:
        """Return the names of all topics."""
        return sorted(self._topics)
