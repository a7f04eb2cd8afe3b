"""The transaction coordinator: producer ids, epochs, fencing and time-outs.

Invariants: of a transactional id only the newest epoch is served; a transaction's records and offsets become visible
at its end, all of them or none. A transaction that is older than its time-out is aborted by the first call of any
client after it, and its producer is refused from then on, as if a newer one had fenced it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tests.simulation.kafka.groups import Committed, Groups
from tests.simulation.kafka.log import PartitionLog

_NEVER: Final = float("inf")
Identity = tuple[int, int]
"""Producer id and epoch."""


class StaleEpoch(Exception):
    """The producer's epoch is not the newest of its transactional id."""


@dataclass(slots=True)
class Transactional:
    """One transactional id.

    `ends_at` is the monotonic time at which an open transaction is too old. One that was ended is closed at
    `closes_at`: by then its markers are written, of a commit if it `commits`. `markers` are those to write, with times.
    """

    producer_id: int
    epoch: int
    timeout_seconds: float
    ends_at: float = _NEVER
    closes_at: float = _NEVER
    commits: bool = False
    markers: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    logs: list[PartitionLog] = field(default_factory=list)
    offsets: dict[tuple[str, str, int], tuple[Committed, int]] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Return whether the coordinator knows of an open transaction."""
        return self.ends_at != _NEVER

    @property
    def next_at(self) -> float:
        """Return when something is due."""
        return min(self.ends_at, self.closes_at, *(when for when, _ in self.markers))


class Coordinator:
    """All transactional ids of a cluster."""

    def __init__(
        self, groups: Groups, monotonic: Callable[[], float], time: Callable[[], float]
    ) -> None:
        self._groups = groups
        self._monotonic, self._time = monotonic, time
        self._ids: dict[str, Transactional] = {}
        self._next_producer_id = 0
        self._next_end = _NEVER
        self._ended = 0
        self._later: list[tuple[str, Callable[[], None]]] = []
        self.back_at = 0.0
        """The monotonic time up to which the coordinator, also that of groups, is away."""
        self.marker_seconds = 0.0
        """How long after a producer was told of the end of its transaction the markers are written."""
        self.marker_delay: Callable[[], float] | None = None
        """Makes the delay of each marker instead: Kafka writes those of one transaction one by one, in any order."""

    def later(self, process: str, action: Callable[[], None]) -> None:
        """Let a request of a process take effect once the coordinator is back."""
        self._later.append((process, action))

    def drop(self, process: str) -> None:
        """Forget the requests of a process that has ended."""
        self._later = [each for each in self._later if each[0] != process]

    def new_producer_id(self) -> int:
        """Return the id of a new producer."""
        self._next_producer_id += 1
        return self._next_producer_id

    def init(self, name: str, timeout_seconds: float) -> Identity:
        """Fence every older producer of this id, and abort its open transaction."""
        self.expire()
        found = self._ids.get(name)
        if found is None:
            found = Transactional(self.new_producer_id(), -1, timeout_seconds)
            self._ids[name] = found
        else:
            self._close(found)
            if found.open:
                self._finish(found, commit=False)
        found.epoch += 1
        found.timeout_seconds = timeout_seconds
        return found.producer_id, found.epoch

    def add_partition(self, name: str, identity: Identity, log: PartitionLog) -> None:
        """Make a partition part of the transaction, which begins by that. Raises StaleEpoch."""
        found = self._begun(name, identity)
        if log not in found.logs:
            found.logs.append(log)

    def begin(self, name: str, identity: Identity) -> None:
        """Let a transaction begin, without a partition or an offset. Raises StaleEpoch."""
        self._begun(name, identity)

    def add_offsets(
        self, name: str, identity: Identity, group: str, offsets: dict[tuple[str, int], Committed]
    ) -> None:
        """Make committed offsets of a group part of the transaction. Raises StaleEpoch."""
        found = self._begun(name, identity)
        for (topic, partition), committed in offsets.items():
            found.offsets[group, topic, partition] = committed, self._groups.next_commit()
            self._groups.pending.add((found.producer_id, group, topic, partition))

    def end(self, name: str, identity: Identity, *, commit: bool) -> None:
        """Commit or abort. Raises StaleEpoch."""
        found = self._checked(name, identity)
        if not found.open:
            return
        delay = self.marker_delay
        if delay is None and not self.marker_seconds:
            self._finish(found, commit=commit)
            return
        found.ends_at, found.commits = _NEVER, commit
        found.closes_at = first = self._monotonic() + self.marker_seconds
        if delay is not None:
            now, markers = self._monotonic(), self._markers(found, commit=commit)
            found.markers = [(now + delay(), write) for write in markers]
            times = [when for when, _ in found.markers]
            found.closes_at, first = max(times, default=now), min(times, default=now)
        self._next_end = min(self._next_end, first)

    def check(self, name: str, identity: Identity) -> None:
        """Raise StaleEpoch if there is a newer producer, or the transaction was too old."""
        self._checked(name, identity)

    def expire(self) -> None:
        """Abort every transaction that is older than its time-out."""
        if self._monotonic() < self.back_at:
            return
        if self._later:
            self._do_later()
        if self._monotonic() < self._next_end:
            return
        now = self._monotonic()
        for each in self._ids.values():
            if each.closes_at <= now:
                self._close(each)
            elif each.markers:
                self._write_due(each, now)
            if each.ends_at <= now:
                self._finish(each, commit=False)
                each.epoch += 1
        self._next_end = min((each.next_at for each in self._ids.values()), default=_NEVER)

    def open_ids(self) -> dict[str, Transactional]:
        """Return the transactional ids with an open transaction."""
        self.expire()
        return {name: each for name, each in self._ids.items() if each.open}

    @property
    def pending(self) -> bool:
        """Return whether a transaction is open, or a marker is not written yet."""
        self.expire()
        return any(each.next_at != _NEVER for each in self._ids.values())

    def abort(self, name: str) -> None:
        """Abort an open transaction, and fence its producer, as Kafka's `forceTerminateTransaction` does."""
        found = self._ids[name]
        if found.open:
            self._finish(found, commit=False)
            found.epoch += 1

    def forget_topic(self, logs: list[PartitionLog]) -> None:
        """Drop a deleted topic's partitions and offsets from open transactions."""
        for each in self._ids.values():
            each.logs = [log for log in each.logs if log not in logs]

    def _do_later(self) -> None:
        later, self._later = self._later, []
        for _, action in later:
            action()

    def _checked(self, name: str, identity: Identity) -> Transactional:
        self.expire()
        found = self._ids[name]
        if (found.producer_id, found.epoch) != identity:
            raise StaleEpoch(name)
        return found

    def _begun(self, name: str, identity: Identity) -> Transactional:
        found = self._checked(name, identity)
        self._close(found)
        if not found.open:
            found.ends_at = self._monotonic() + found.timeout_seconds
            self._next_end = min(self._next_end, found.ends_at)
        return found

    def _close(self, found: Transactional) -> None:
        if found.markers:
            self._write_due(found, _NEVER)
            self._forget(found)
        elif found.closes_at != _NEVER:
            self._finish(found, commit=found.commits)

    def _write_due(self, found: Transactional, now: float) -> None:
        due = [each for each in found.markers if each[0] <= now]
        found.markers = [each for each in found.markers if each[0] > now]
        for _, write in sorted(due, key=lambda each: each[0]):
            write()

    def _finish(self, found: Transactional, *, commit: bool) -> None:
        for write in self._markers(found, commit=commit):
            write()
        self._forget(found)

    def _markers(self, found: Transactional, *, commit: bool) -> list[Callable[[], None]]:
        """Return what writes the marker of each partition, the last one that of the group's offsets."""
        producer_id, offsets = found.producer_id, dict(found.offsets)
        self._ended = ended = self._ended + 1

        def end(log: PartitionLog) -> None:
            now_ms = int(self._time() * 1000)
            log.end_transaction(producer_id, now_ms, commit=commit, transaction=ended)

        def end_offsets() -> None:
            for key, (committed, number) in offsets.items():
                self._groups.pending.discard((producer_id, *key))
                if commit:
                    self._groups.commit(key, committed, number, ended)

        return [*(partial(end, log) for log in found.logs), end_offsets]

    def _forget(self, found: Transactional) -> None:
        found.logs, found.offsets, found.markers = [], {}, []
        found.ends_at = found.closes_at = _NEVER
