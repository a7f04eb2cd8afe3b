"""Judge the growth of a stream: joining partitions, its condition, its events.

The reconciler calls it; `growth_watch` acts. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dedupe_crds.formatting import ranges
from dedupe_crds.status.growth import GrowthStatus, GrowthStep
from dedupe_crds.status.worker import WorkerStatus
from dedupe_growth.epochs import Epochs
from dedupe_growth.unlearnt import is_learning
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.snapshot_policy import Verdict
from dedupe_operator.decide.stream_status import StreamEvent

Workers = Mapping[int, WorkerStatus | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthView:
    """The epochs of a stream with routers, as far as they are known.

    `epochs` has no entry before the log was read. `status` is the present growth or the last one, `problem` why the
    last step failed, `wanted` the manifest's number of partitions. `unreadable`: the log has entries of a later
    release, or lacks some.
    """

    epochs: Epochs = field(default_factory=Epochs)
    status: GrowthStatus | None = None
    problem: Problem | None = None
    wanted: int = 0
    unreadable: bool = False

    @property
    def added(self) -> range:
        """Return the partitions that a growth under way adds; none at rest."""
        epoch = self.epochs.prepared
        return self.epochs.added(epoch) if epoch > self.epochs.done and epoch > 0 else range(0)

    @property
    def is_due(self) -> bool:
        """Return whether acts are left to do, or will be soon."""
        return bool(self.added) or self.wanted > self.epochs.workers

    def is_unwritten(self, partition: int) -> bool:
        """Return whether a growth adds a partition, and no record was ever for it."""
        return partition in self.added and self.epochs.switched < self.epochs.prepared

    def learning(self, workers: Workers) -> frozenset[int]:
        """Return the added partitions whose workers run, and learn their ids."""
        return frozenset(each for each in self.added if is_learning(workers.get(each)))

    def joining(self, workers: Workers) -> frozenset[int]:
        """Return the added partitions that do not count yet.

        Before the switch no record is for them; after it they learn until the old workers have passed it.
        """
        learning = self.learning(workers)
        return learning | frozenset(each for each in self.added if self.is_unwritten(each))


def judge(view: GrowthView) -> Verdict:
    """Return the content of the condition Growing."""
    count, status, problem = view.epochs.workers, view.status, view.problem
    waits = f" It waits: {problem.message}" if problem else ""
    if not count:
        reason = problem.reason if problem else "NotStarted"
        message = f"The epoch log was not read yet.{waits}"
        return Verdict(holds=None, reason=reason, message=message)
    if view.added and status is not None:
        queued = f" Then it grows to {view.wanted}." * (view.wanted > count)
        reason = problem.reason if problem else status.step.value
        return Verdict(holds=True, reason=reason, message=f"{status.line}{queued}{waits}")
    if view.wanted > count:
        reason = problem.reason if problem else "WaitingForTopics"
        message = f"The growth from {count} to {view.wanted} partitions begins once all topics have them.{waits}"
        return Verdict(holds=True, reason=reason, message=message)
    return Verdict(holds=False, reason="NotGrowing", message=f"The stream has {count} partitions.")


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
        message = (
            f"The stream grows from {now.before} to {now.partitions} partitions; the workers of the new ones learn "
            "their ids first."
        )
        found.append(StreamEvent(reason="GrowthStarted", message=message))
    return found


def _finished(growth: GrowthStatus) -> StreamEvent:
    message = f"The stream has grown from {growth.before} to {growth.partitions} partitions."
    return StreamEvent(reason="GrowthFinished", message=message)
