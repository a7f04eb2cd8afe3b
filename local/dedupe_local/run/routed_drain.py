"""Drain condition of a stream with routers: first they, then the workers.

The fleet calls it. What the routers' group has committed is the truth; what a router says may be of before a restart.
"""

from collections.abc import Sequence

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.worker import WorkerStatus
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import StreamError
from dedupe_kafka.input_topics import input_topics
from dedupe_local.run.drain import WorkerDrain

_ASK_SECONDS = 1.0

Place = tuple[str, int]


class RoutedDrain:
    """Tracks the routers up to the ends of the inputs, then the workers."""

    def __init__(
        self, cluster: Cluster, stream: DedupeStream, stall_seconds: float, now: float
    ) -> None:
        self._cluster = cluster
        self._stream = stream
        self._stall_seconds = stall_seconds
        servers = stream.spec.kafka.bootstrap_servers
        names = [topic.name for topic in input_topics(cluster, stream.spec, servers)]
        self._ends = {
            (name, partition): end
            for name in names
            for partition, end in cluster.offsets(name).ends.items()
            if end
        }
        self._committed: dict[Place, int] = {}
        self._moved_at = self._ask_at = now
        self._workers: WorkerDrain | None = None

    def observe(self, statuses: Sequence[WorkerStatus | None], now: float) -> None:
        """Record how far routers and workers are."""
        if self._workers is None and now >= self._ask_at:
            self._ask_at = now + _ASK_SECONDS
            self._ask(now)
        if self._workers is not None:
            self._workers.observe(statuses, now)

    def _ask(self, now: float) -> None:
        group, topics = self._stream.router_group, {name for name, _ in self._ends}
        try:
            found = {
                (name, partition): offset
                for name in topics
                for partition, offset in self._cluster.committed(group, name).items()
            }
            if any(found.get(place, 0) > offset for place, offset in self._committed.items()):
                self._moved_at = now
            self._committed = {place: found.get(place, 0) for place in self._ends}
            if not self._left:
                # After their offsets, so that all they have written is before these ends.
                ends = self._cluster.settled_offsets(self._stream.spec.worker_input).ends
                self._workers = WorkerDrain(ends, self._stall_seconds, now)
        except StreamError:
            return  # the routers name it as well, and without progress the drain fails

    @property
    def _left(self) -> list[Place]:
        return [place for place, end in self._ends.items() if self._committed.get(place, 0) < end]

    @property
    def done(self) -> bool:
        """Return whether routers and workers are at their ends."""
        return self._workers is not None and self._workers.done

    def stalled(self, now: float) -> list[str]:
        """Return a sentence for each partition that makes no progress."""
        if self._workers is not None:
            return self._workers.stalled(now)
        return self.missing() if now - self._moved_at >= self._stall_seconds else []

    def missing(self) -> list[str]:
        """Return a sentence for each partition that is not at its end."""
        if self._workers is not None:
            return self._workers.missing()
        return [
            f"input {topic}/{partition} is routed up to {self._committed.get((topic, partition), 0)} of "
            f"{self._ends[topic, partition]}"
            for topic, partition in self._left
        ]
