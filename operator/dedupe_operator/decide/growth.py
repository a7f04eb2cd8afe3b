"""Judge the growth of a stream: joining partitions, its condition, its events.

The reconciler calls it; `growth_watch` acts. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dedupe_crds.formatting import ranges
from dedupe_crds.status.growth import GrowthStatus, GrowthStep
from dedupe_crds.status.worker import WorkerStatus
from dedupe_growth.epochs import Epochs
from dedupe_growth.unlearnt import is_learning
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.decide.verdict import Verdict

Workers = Mapping[int, WorkerStatus | None]

SILENT: Final = (
    "Until its workers have read the outputs of each other, the stream passes no message."
)
"""The cost of a change to routers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthView:
    """The epochs of a stream with routers, as far as they are known.

    `epochs` has no entry before the log was read. `status` is the present growth or the last one, `problem` why the
    last step failed, `wanted` the manifest's number of partitions. `unreadable`: the log has entries of a later
    release, or lacks some. `direct`: the workers still run without routers.
    """

    epochs: Epochs = field(default_factory=Epochs)
    status: GrowthStatus | None = None
    problem: Problem | None = None
    wanted: int = 0
    unreadable: bool = False
    direct: bool = False

    @property
    def has_begun(self) -> bool:
        """Return whether the log has the first epoch that routers decide by."""
        return self.epochs.prepared >= self.epochs.first

    @property
    def must_wait(self) -> bool:
        """Return whether no child object may be changed before the log says more.

        So if a later release has written it, because its pods know more than this operator; and before a change to
        routers has begun, because a worker that has the new manifest passes on no message before it is over.
        """
        return self.unreadable or (self.direct and not self.has_begun)

    @property
    def adds_routers(self) -> bool:
        """Return whether a stream that ran without routers gets them now."""
        known = self.epochs
        return known.direct is not None and known.done < known.first

    @property
    def hands_over(self) -> bool:
        """Return whether workers of a stream without routers still hand their input over.

        Each waits for all others then. Once the log has what all have handed over, each has started again.
        """
        return self.adds_routers and self.has_begun and self.epochs.first not in self.epochs.cuts

    @property
    def added(self) -> range:
        """Return the partitions that a growth under way adds; none at rest.

        To a stream that gets routers it adds all: each learns ids that another worker has had.
        """
        epoch = self.epochs.prepared
        return self.epochs.added(epoch) if epoch > self.epochs.done and epoch > 0 else range(0)

    @property
    def is_due(self) -> bool:
        """Return whether acts are left to do, or will be soon."""
        return bool(self.added) or not self.has_begun or self.wanted > self.epochs.workers

    def is_unwritten(self, partition: int) -> bool:
        """Return whether a growth adds a partition, and no record was ever for it."""
        old = self.epochs.before(self.epochs.prepared)
        switched = self.epochs.switched >= self.epochs.prepared
        return partition in self.added and partition not in old and not switched

    def learning(self, workers: Workers) -> frozenset[int]:
        """Return the added partitions whose workers run, and learn their ids."""
        return frozenset(each for each in self.added if is_learning(workers.get(each)))

    def joining(self, workers: Workers) -> frozenset[int]:
        """Return the added partitions that do not count yet.

        Before the switch no record is for them; after it they learn until the old workers have passed it. While a
        stream gets routers all count: it passes no message until they have learnt.
        """
        if self.adds_routers:
            return frozenset()
        learning = self.learning(workers)
        return learning | frozenset(each for each in self.added if self.is_unwritten(each))


def judge(view: GrowthView) -> Verdict:
    """Return the content of the condition Growing."""
    count, status, problem = view.epochs.workers, view.status, view.problem
    waits = f" It waits: {problem.message}" if problem else ""
    if not view.has_begun and (view.direct or count):
        reason = problem.reason if problem else "WaitingForTopics"
        message = (
            f"The change to routers with {view.wanted} partitions begins once all topics have them. Until then the "
            f"stream runs without routers.{waits}"
        )
        return Verdict("Growing", holds=True, reason=reason, message=message)
    if not count:
        reason = problem.reason if problem else "NotStarted"
        message = f"The epoch log was not read yet.{waits}"
        return Verdict("Growing", holds=None, reason=reason, message=message)
    if view.added and status is not None:
        silent = f" {SILENT}" * view.adds_routers
        queued = f" Then it grows to {view.wanted}." * (view.wanted > count)
        reason = problem.reason if problem else status.step.value
        return Verdict(
            "Growing", holds=True, reason=reason, message=f"{status.line}{silent}{queued}{waits}"
        )
    if view.wanted > count:
        reason = problem.reason if problem else "WaitingForTopics"
        message = f"The growth from {count} to {view.wanted} partitions begins once all topics have them.{waits}"
        return Verdict("Growing", holds=True, reason=reason, message=message)
    return Verdict(
        "Growing", holds=False, reason="NotGrowing", message=f"The stream has {count} partitions."
    )


def joining_clause(joining: frozenset[int]) -> str:
    """Return a clause about partitions that do not count yet; "" without any.

    >>> joining_clause(frozenset({4, 5}))
    ', and partitions 4-5 are being added'
    """
    if not joining:
        return ""
    which = f"partition{'s' * (len(joining) > 1)} {ranges(sorted(joining))}"
    return f", and {which} {'are' if len(joining) > 1 else 'is'} being added"


def step_number(view: GrowthView) -> int:
    """Return the step of a growth under way, from 1 on; 0 at rest."""
    if view.status is None or not view.added or view.status.step is GrowthStep.DONE:
        return 0
    return list(GrowthStep).index(view.status.step) + 1


def growth_events(before: GrowthStatus | None, now: GrowthStatus | None) -> list[StreamEvent]:
    """Return the events of growths that began or ended since the recorded status."""
    if now is None:
        return []
    found: list[StreamEvent] = []
    is_new = before is None or now.epoch > before.epoch
    if before is not None and before.step is not GrowthStep.DONE:
        # A growth that waited may have begun in the same pass.
        found += [_finished(before)] * (is_new or now.step is GrowthStep.DONE)
    if is_new and now.step is not GrowthStep.DONE:
        found.append(StreamEvent(reason="GrowthStarted", message=_started(now)))
    return found


def _started(growth: GrowthStatus) -> str:
    if growth.adds_routers:
        return (
            f"The stream with {growth.before} partitions gets routers and {growth.partitions} partitions, and all its "
            f"workers start again. {SILENT}"
        )
    return (
        f"The stream grows from {growth.before} to {growth.partitions} partitions; the workers of the new ones learn "
        "their ids first."
    )


def _finished(growth: GrowthStatus) -> StreamEvent:
    routers = " and got routers" if growth.adds_routers else ""
    message = (
        f"The stream has grown from {growth.before} to {growth.partitions} partitions{routers}."
    )
    return StreamEvent(reason="GrowthFinished", message=message)
