"""Read the entries of the epoch log together.

Routers, workers and the controller ask it. Pure. Invariant: of several entries of one kind the highest epoch counts,
and of one epoch the first; lists of inputs only grow.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dedupe_growth.entries import (
    Cuts,
    Direct,
    Done,
    Entry,
    HandedOver,
    Listed,
    Prepare,
    RouterStart,
    Switch,
)

NO_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Epochs:
    """The epochs of a stream; `log` has the entries that were read.

    `entries` is their number. `prepared`, `switched` and `done` are the highest epochs of these entries, -1 before the
    first one. `partitions` has the partition count of each epoch, `inputs` the partition counts of the topics that it
    lists, `switch_inputs` those of the switch alone, `cuts` the positions at which the old outputs end, by partition.
    Of a stream that ran without routers before, `direct` is its epoch 0, and `starts` are where the routers begin in
    its input partitions.
    """

    entries: int = 0
    log: tuple[Entry, ...] = ()
    prepared: int = NO_EPOCH
    switched: int = NO_EPOCH
    done: int = NO_EPOCH
    partitions: Mapping[int, int] = field(default_factory=dict)
    inputs: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    switch_inputs: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    cuts: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    direct: Direct | None = None
    starts: Mapping[int, RouterStart] = field(default_factory=dict)

    def followed_by(self, entry: Entry) -> "Epochs":
        """Return the epochs after one more entry."""
        epoch = entry.epoch
        known = replace(self, entries=self.entries + 1, log=(*self.log, entry))
        match entry:
            case Prepare(partitions=count) | Direct(partitions=count):
                direct = entry if isinstance(entry, Direct) else None
                return replace(
                    known,
                    prepared=max(self.prepared, epoch),
                    partitions={epoch: count, **self.partitions},
                    direct=self.direct or direct,
                )
            case Switch(partitions=count, inputs=inputs):
                return replace(
                    known,
                    prepared=max(self.prepared, epoch),
                    switched=max(self.switched, epoch),
                    partitions={epoch: count, **self.partitions},
                    inputs={**self.inputs, epoch: _joined(self.inputs.get(epoch, {}), inputs)},
                    switch_inputs={epoch: inputs, **self.switch_inputs},
                )
            case Listed(inputs=inputs):
                listed = _joined(self.inputs.get(epoch, {}), inputs)
                return replace(known, inputs={**self.inputs, epoch: listed})
            case Cuts(cuts=cuts) | HandedOver(cuts=cuts):
                starts = entry.starts if isinstance(entry, HandedOver) else {}
                return replace(known, cuts={epoch: cuts, **self.cuts}, starts=self.starts or starts)
            case Done():
                return replace(known, done=max(self.done, epoch))

    @property
    def workers(self) -> int:
        """Return the number of partitions that have workers, 0 before the first entry."""
        return self.partitions.get(self.prepared, 0)

    @property
    def grows(self) -> bool:
        """Return whether a growth is under way."""
        return self.prepared > self.done

    def lists(self, topic: str, partition: int) -> bool:
        """Return whether an input partition may be routed by the present epoch."""
        return partition < self.listed.get(topic, 0)

    @property
    def listed(self) -> Mapping[str, int]:
        """Return the inputs that may be routed by the present epoch."""
        return self.inputs.get(self.switched, {})

    @property
    def first(self) -> int:
        """Return the first epoch that routers decide by."""
        return 0 if self.direct is None else self.direct.epoch + 1

    @property
    def earlier_inputs(self) -> frozenset[str]:
        """Return the ids of what workers have read before the stream had routers."""
        direct = {self.direct.topic_id} if self.direct else set()
        return frozenset(direct | {start.topic_id for start in self.starts.values()})

    def born(self, partition: int) -> int:
        """Return the routers' first epoch with this partition, or the next one."""
        known = [
            epoch
            for epoch, count in self.partitions.items()
            if epoch >= self.first and partition < count
        ]
        return min(known, default=self.prepared + 1)

    def before(self, epoch: int) -> range:
        """Return the partitions of the epoch before: those whose ids a new one learns."""
        return range(self.partitions.get(epoch - 1, 0))

    def sources(self, partition: int) -> list[int]:
        """Return the partitions from whose outputs a partition learns its ids."""
        return [each for each in self.before(self.born(partition)) if each != partition]

    def added(self, epoch: int) -> range:
        """Return the partitions that an epoch has added: all, by the routers' first."""
        old = 0 if epoch == self.first else self.partitions.get(epoch - 1, 0)
        return range(old, self.partitions.get(epoch, 0))

    def start(self, topic: str, partition: int) -> RouterStart | None:
        """Return where routers begin in an input partition that a worker has read before."""
        if self.direct is None or topic != self.direct.topic:
            return None
        return self.starts.get(partition)


def epochs_of(entries: Iterable[Entry]) -> Epochs:
    """Return what entries from the first one on say together."""
    found = Epochs()
    for entry in entries:
        found = found.followed_by(entry)
    return found


def _joined(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    # A copy, and no look at each: a log may list thousands of topics one by one.
    return {**one, **{topic: max(one.get(topic, 0), count) for topic, count in other.items()}}
