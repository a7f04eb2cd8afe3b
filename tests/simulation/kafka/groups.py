"""The offsets that consumer groups have committed, with their metadata."""

from typing import NamedTuple

from confluent_kafka import TopicPartition

from tests.simulation.kafka.log import Changes


class Committed(NamedTuple):
    """A committed offset; `metadata` is empty, and `epoch` -1, if none was given."""

    offset: int
    metadata: str
    epoch: int = -1

    @classmethod
    def of(cls, where: TopicPartition) -> "Committed":
        """Return what a client commits."""
        epoch = -1 if where.leader_epoch is None else where.leader_epoch
        return cls(where.offset, where.metadata or "", epoch)


class Groups:
    """All groups of a cluster.

    `pending` names the commits of open transactions: producer id, group, topic and partition. Of two commits the one
    that was sent later counts, also if the earlier one is of a transaction that ends after it.
    """

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, str, int], Committed] = {}
        self._sent: dict[tuple[str, str, int], int] = {}
        self.transactions: dict[tuple[str, str, int], int | None] = {}
        """The number of the transaction that has committed each offset."""
        self._commits = 0
        self.changes = Changes()
        self.pending: set[tuple[int, str, str, int]] = set()

    def next_commit(self) -> int:
        """Return the number of a commit that is sent now."""
        self._commits += 1
        return self._commits

    def commit(
        self,
        key: tuple[str, str, int],
        committed: Committed,
        number: int,
        transaction: int | None = None,
    ) -> None:
        """Replace the offset of a group, topic and partition, unless a later commit has done so."""
        if number > self._sent.get(key, 0):
            self._offsets[key], self._sent[key] = committed, number
            self.transactions[key] = transaction
            self.changes.count += 1

    def committed(self, group: str, topic: str, partition: int) -> Committed | None:
        """Return the group's offset of a partition, if there is one."""
        return self._offsets.get((group, topic, partition))

    def is_unstable(self, group: str, topic: str, partition: int) -> bool:
        """Return whether an open transaction may still commit an offset here."""
        return any(each[1:] == (group, topic, partition) for each in self.pending)

    def exists(self, group: str) -> bool:
        """Return whether the group has an offset."""
        return any(each == group for each, _, _ in self._offsets)

    def forget_topic(self, topic: str) -> None:
        """Delete the offsets of a deleted topic, as a broker does."""
        self.changes.count += 1
        self._offsets = {key: each for key, each in self._offsets.items() if key[1] != topic}
        for key in [key for key in self._sent if key[1] == topic]:
            del self._sent[key]

    def forget_group(self, group: str) -> None:
        """Delete a group's offsets, as after offsets.retention.minutes without a commit."""
        self.changes.count += 1
        self._offsets = {key: each for key, each in self._offsets.items() if key[0] != group}
