"""Drain of a stream with routers: first they, then the workers.

The fleet calls it. What the routers' group has committed is the truth: the status of a router may be of before the
last messages came. The conditions are those of `input_drain` and `drain`.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from confluent_kafka import IsolationLevel

from dedupe_crds.formatting import listed
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.router import RouterPhase
from dedupe_crds.status.worker import WorkerStatus
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import StreamError
from dedupe_kafka.offsets import Place
from dedupe_local.run.drain import WorkerDrain
from dedupe_local.run.input_drain import InputDrain
from dedupe_local.run.router_process import RouterView

_ASK_SECONDS = 1.0

Views = Callable[[], Sequence[RouterView]]


class RoutedDrain:
    """Tracks the routers up to the ends of the inputs, then the workers.

    The workers' ends are those that the repartition topic has once all is routed.
    """

    def __init__(
        self,
        cluster: Cluster,
        stream: DedupeStream,
        stall_seconds: float,
        now: float,
        *,
        routers: Views = tuple,
    ) -> None:
        self._cluster = cluster
        self._stream = stream
        self._stall_seconds = stall_seconds
        self._routers = routers
        self._unknown: dict[Place, StreamError] = {}
        """The partitions whose end is not known, and why."""
        self._inputs = InputDrain({}, stall_seconds, now)
        self._learn_ends({topic.name: None for topic in cluster.inputs(stream.spec)})
        self._ask_at = now
        self._workers: WorkerDrain | None = None
        # Workers for which routers wait: they have no end, but progress.
        everywhere = range(stream.spec.repartition.partitions if stream.spec.repartition else 0)
        self._ahead = WorkerDrain(dict.fromkeys(everywhere, sys.maxsize), stall_seconds, now)

    def observe(self, statuses: Sequence[WorkerStatus | None], now: float) -> None:
        """Record how far routers and workers are."""
        if self._workers is None:
            self._observe_routers(statuses, now)
        if self._workers is not None:
            self._workers.observe(statuses, now)

    def _observe_routers(self, statuses: Sequence[WorkerStatus | None], now: float) -> None:
        self._ahead.observe(statuses, now)
        phases = [view.status.phase for view in self._routers() if view.status]
        if RouterPhase.PAUSED in phases:
            self._inputs.wait_for_workers(self._ahead.moved_at)
        if now < self._ask_at:
            return
        self._ask_at = now + _ASK_SECONDS
        with suppress(StreamError):  # the routers name it too, and without progress it stalls
            if self._unknown:
                numbers: dict[str, list[int]] = {}
                for topic, number in self._unknown:
                    numbers.setdefault(topic, []).append(number)
                self._learn_ends(numbers)
            if left := self._inputs.left:
                found = self._cluster.committed_now(self._stream.router_group, left)
                self._inputs.observe(found, now)
            if not (self._inputs.left or self._unknown):
                self._begin_workers(now)

    def _learn_ends(self, wanted: Mapping[str, Sequence[int] | None]) -> None:
        """Ask for the end of partitions, or of all of a topic.

        It is after open transactions: what they hide must be routed as well. One that cannot be read now is asked for
        again, and the others are routed meanwhile.
        """
        for topic, numbers in wanted.items():
            found = self._cluster.offsets_of(topic, numbers, IsolationLevel.READ_UNCOMMITTED)
            for number in found.ends:
                self._unknown.pop((topic, number), None)
            self._unknown |= {(topic, number): why for number, why in found.failed.items()}
            self._inputs.extend(
                {
                    (topic, number): end
                    for number, end in found.ends.items()
                    if end > found.lows[number]
                }
            )

    def _begin_workers(self, now: float) -> None:
        # With the records of open transactions: Kafka may show the offsets of a transaction before its records.
        ends = self._cluster.high_watermarks(self._stream.spec.worker_input)
        self._workers = WorkerDrain(ends, self._stall_seconds, now)

    @property
    def done(self) -> bool:
        """Return whether routers and workers are at their ends."""
        return self._workers is not None and self._workers.done

    def stalled(self, now: float) -> list[str]:
        """Return a sentence for each partition that makes no progress."""
        if self._workers is not None:
            return self._workers.stalled(now)
        return self.missing() if self._inputs.is_stalled(now) else []

    def missing(self) -> list[str]:
        """Return a sentence for each partition not at its end, and what routers report."""
        if self._workers is not None:
            return self._workers.missing()
        said = [(view, _said(view)) for view in self._routers()]
        causes = [f"router {view.router}: {text}" for view, text in said if text]
        left = [*self._inputs.missing(), *self._unknown_ends()]
        unknown = f"the end of {self._stream.spec.worker_input} is not known"
        return [*(left or [unknown]), *causes]

    def _unknown_ends(self) -> list[str]:
        """Return a sentence about all partitions whose ends are not known."""
        if not self._unknown:
            return []
        reasons = [f"{why.reason}: {why}" for _, why in sorted(self._unknown.items())]
        return [f"the ends of some partitions are not known: {listed(reasons)}"]


def _said(view: RouterView) -> str:
    """Return why a router does not route, as far as it is known."""
    status = view.status
    if view.last_exit or status is None:
        return view.last_exit or ""
    return f"{status.reason}: {status.message}" if status.reason else ""
