"""Decide on the next act of a growth from the epoch log and the committed offsets.

The controller calls it until nothing is left to do. Pure. The order of the acts, and why each may be done only when it
is done here, is in docs/decisions/0034 and 0035; a model of it was explored before this was written.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dedupe_crds.status.growth import GrowthStatus, GrowthStep
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
from dedupe_growth.epochs import NO_EPOCH, Epochs
from dedupe_growth.mark import Mark
from dedupe_kafka.offset_metadata import Cut
from dedupe_kafka.offsets import Place

# So few records left to learn are read in the time that the switch takes.
_NEARLY_LEARNT = 100_000
_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class Observed:
    """The stream as it is now.

    `inputs` are the topics of the manifest that exist, with their partition counts; `former` are those that the log
    lists, that exist, and that the manifest has no more. `wanted` is the number of partitions that the manifest asks
    for, and that all topics have. `adopted` is the epoch in the routers' committed offset of an input partition, if
    there is one; `passed` what is in the workers' committed offset of a partition of the repartition topic. `unlearnt`
    is the number of records that the worker of a new partition has not read yet; a partition whose worker does not say
    so is not in it. `direct` is what ran before the stream got routers, if the log does not say it yet; `handed_over`
    has the input partitions that its workers have handed over.
    """

    inputs: Mapping[str, int]
    wanted: int
    former: Mapping[str, int] = field(default_factory=dict)
    adopted: Mapping[Place, int] = field(default_factory=dict)
    passed: Mapping[int, Cut] = field(default_factory=dict)
    unlearnt: Mapping[int, int] = field(default_factory=dict)
    direct: Direct | None = None
    handed_over: Mapping[int, "HandOver"] = field(default_factory=dict)


class HandOver(NamedTuple):
    """An input partition that is handed over: where routers begin, and the cut."""

    start: RouterStart
    cut: int


@dataclass(frozen=True)
class WriteMarks:
    """Append the mark to these partitions of the repartition topic."""

    mark: Mark
    partitions: tuple[int, ...]


Act = Entry | WriteMarks


@dataclass(frozen=True)
class Decision:
    """The next act, if one can be done now, and the step that the growth is at."""

    act: Act | None = None
    status: GrowthStatus | None = None


def decide(epochs: Epochs, seen: Observed) -> Decision:
    """Return the next act.

    If it is an entry, it may be appended to the log that `epochs` are of, and to no longer one.
    """
    if epochs.switched == NO_EPOCH:
        return _first_switch(epochs, seen)
    if unlisted := _unlisted(epochs, seen.inputs):
        return Decision(Listed(epoch=epochs.switched, inputs=unlisted), _status(epochs, seen))
    status = _status(epochs, seen)
    if epochs.done < epochs.switched:
        return Decision(_after_switch(epochs, seen, status), status)
    if epochs.prepared > epochs.switched:
        ready = status is not None and status.done == status.total
        return Decision(_switch(epochs) if ready else None, status)
    if seen.wanted > epochs.workers:
        return Decision(Prepare(epoch=epochs.prepared + 1, partitions=seen.wanted), status)
    return Decision(None, status)


def _first_switch(epochs: Epochs, seen: Observed) -> Decision:
    """Return what comes before routers decide for the first time.

    Of a stream that ran without them: its workers hand their input over, because only they know where they have ended.
    Then all ids may be in another store than their new one.
    """
    if epochs.direct is None:
        return Decision(seen.direct or Switch(epoch=0, partitions=seen.wanted, inputs=seen.inputs))
    epoch = epochs.first
    if epochs.prepared < epoch:
        return Decision(Prepare(epoch=epoch, partitions=seen.wanted))
    status = _status(epochs, seen)
    if epoch in epochs.cuts:
        count = epochs.partitions[epoch]
        return Decision(Switch(epoch=epoch, partitions=count, inputs=seen.inputs), status)
    old = epochs.before(epoch)
    if any(each not in seen.handed_over for each in old):
        return Decision(None, status)
    return Decision(
        HandedOver(
            epoch=epoch,
            cuts={each: seen.handed_over[each].cut for each in old},
            starts={each: seen.handed_over[each].start for each in old},
        ),
        status,
    )


def _switch(epochs: Epochs) -> Switch:
    """Return the switch to the prepared epoch, of all inputs that may be routed now.

    Also of those that are not seen: a router that is behind may route one that is only hidden, or created again.
    """
    epoch, listed = epochs.prepared, epochs.inputs[epochs.switched]
    return Switch(epoch=epoch, partitions=epochs.partitions[epoch], inputs=listed)


def _after_switch(epochs: Epochs, seen: Observed, status: GrowthStatus | None) -> Act | None:
    epoch = epochs.switched
    if epoch == 0:
        return Done(epoch=0)
    complete = status is not None and status.done == status.total
    if epoch in epochs.cuts:
        return Done(epoch=epoch) if complete else None
    if _not_adopted(epochs, seen):
        return None
    late = _not_passed(epochs, seen)
    if late:
        return WriteMarks(Mark(epoch, epochs.partitions[epoch]), tuple(late))
    return Cuts(
        epoch=epoch,
        cuts={partition: seen.passed[partition].position for partition in epochs.before(epoch)},
    )


def _unlisted(epochs: Epochs, inputs: Mapping[str, int]) -> dict[str, int]:
    return {topic: count for topic, count in inputs.items() if not epochs.lists(topic, count - 1)}


def _not_adopted(epochs: Epochs, seen: Observed) -> list[Place]:
    """Return the input partitions that the epoch before may still route.

    Also of a topic that the manifest has no more: a router with an older manifest may still route it. Of a topic that
    was deleted nothing is left to route, and Kafka has deleted its offsets with it. One that is only hidden, as without
    the right to describe it, still has them.
    """
    epoch = epochs.switched
    return [
        (topic, partition)
        for topic, count in epochs.switch_inputs[epoch].items()
        for partition in range(count)
        if _epoch_routed(seen, topic, partition, gone=epoch) < epoch
    ]


def _epoch_routed(seen: Observed, topic: str, partition: int, *, gone: int) -> int:
    exists = partition < max(seen.inputs.get(topic, 0), seen.former.get(topic, 0))
    return seen.adopted.get((topic, partition), NO_EPOCH if exists else gone)


def _not_passed(epochs: Epochs, seen: Observed) -> list[int]:
    """Return the old partitions whose worker has not met the mark."""
    epoch = epochs.switched
    return [each for each in epochs.before(epoch) if _epoch_of(seen, each) < epoch]


def _epoch_of(seen: Observed, partition: int) -> int:
    cut = seen.passed.get(partition)
    return 0 if cut is None else cut.epoch


def _status(epochs: Epochs, seen: Observed) -> GrowthStatus | None:
    """Return the step of the newest growth; None of a stream that never grew."""
    epoch = epochs.prepared
    if epoch < 1:
        return None
    added = epochs.added(epoch)
    if epochs.done >= epoch:
        return _at(epochs, GrowthStep.DONE, total=len(added))
    if epoch in epochs.cuts:
        behind = [str(each) for each in added if _epoch_of(seen, each) < epoch]
        return _at(epochs, GrowthStep.READING_REST, behind, total=len(added))
    return _before_cuts(epochs, seen)


def _before_cuts(epochs: Epochs, seen: Observed) -> GrowthStatus:
    """Return the step of a growth whose old workers still produce."""
    epoch = epochs.prepared
    added, old = epochs.added(epoch), epochs.before(epoch)
    if epoch == epochs.first:
        reading = [str(each) for each in old if each not in seen.handed_over]
        return _at(epochs, GrowthStep.HANDING_OVER, reading, total=len(old))
    if epochs.switched < epoch:
        unlearnt = [p for p in added if seen.unlearnt.get(p, _NEARLY_LEARNT + 1) > _NEARLY_LEARNT]
        return _at(epochs, GrowthStep.LEARNING, map(str, unlearnt), total=len(added))
    if waiting := _not_adopted(epochs, seen):
        places = (f"{topic}/{partition}" for topic, partition in waiting)
        total = sum(epochs.switch_inputs[epoch].values())
        return _at(epochs, GrowthStep.WAITING_FOR_ROUTERS, places, total=total)
    late = _not_passed(epochs, seen)
    return _at(epochs, GrowthStep.WAITING_FOR_WORKERS, map(str, late), total=len(old))


def _at(
    epochs: Epochs, step: GrowthStep, waiting_for: Iterable[str] = (), *, total: int
) -> GrowthStatus:
    epoch, waiting = epochs.prepared, list(waiting_for)
    return GrowthStatus(
        epoch=epoch,
        before=epochs.partitions.get(epoch - 1, 0),
        adds_routers=epoch == epochs.first,
        partitions=epochs.partitions[epoch],
        step=step,
        done=total - len(waiting),
        total=total,
        waiting_for=waiting[:_SHOWN],
    )
