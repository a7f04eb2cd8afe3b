"""Transactions of other systems on the worker's topics."""

from typing import TYPE_CHECKING

from tests.simulation.kafka.log import Record

if TYPE_CHECKING:
    from tests.simulation.kafka.cluster import SimKafka


class ForeignTransaction:
    """An open transaction. Left alone, it is aborted after its time-out."""

    def __init__(self, cluster: "SimKafka", name: str, timeout_seconds: float) -> None:
        self._cluster = cluster
        self._name = name
        self._identity = cluster.coordinator.init(name, timeout_seconds)

    def write(
        self, topic: str, partition: int, records: list[Record], *, fetch_seconds: float = 0.0
    ) -> int:
        """Append one batch; return its first offset.

        A reader needs `fetch_seconds` to fetch it: it stands for many records without taking memory.

        Raises StaleEpoch after the time-out.
        """
        log = self._cluster.log(topic, partition)
        self._cluster.coordinator.add_partition(self._name, self._identity, log)
        return log.append(
            records, self._identity[0], transactional=True, fetch_seconds=fetch_seconds
        )

    def commit(self) -> None:
        """Commit. Raises StaleEpoch after the time-out."""
        self._cluster.coordinator.end(self._name, self._identity, commit=True)

    def abort(self) -> None:
        """Abort. Raises StaleEpoch after the time-out."""
        self._cluster.coordinator.end(self._name, self._identity, commit=False)
