"""One look at a stream: what is known at its beginning, and what is found out on the way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.stream import Failover, PartitionStatus, StreamStatus
from dedupe_crds.status.worker import WorkerStatus
from dedupe_operator.controller.observe import Observed
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.stream_status import Notice
from dedupe_operator.decide.volume_claims import ClaimChoice
from dedupe_operator.topic_watch import TopicsView


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A stream as it was found. `recorded` is the status as it stands; `secrets_hash` is None if the
    Kafka credentials can't be read, and then no worker is started or changed. `workers` are the
    answers of those that have an address."""

    stream: DedupeStream
    generation: int
    recorded: StreamStatus
    observed: Observed
    topics: TopicsView
    admin_token: str = field(repr=False)
    secrets_hash: str | None
    kafka_secret: Mapping[str, bytes] = field(repr=False)
    workers: Mapping[int, WorkerStatus | None]
    now: datetime

    def recorded_partition(self, partition: int) -> PartitionStatus | None:
        """What the status says of a partition."""
        of_it = (one for one in self.recorded.partitions if one.partition == partition)
        return next(of_it, None)

    @property
    def partitions(self) -> range:
        """The partitions to look after.

        Those that were there stay, whatever the input topic says now; new ones start only on
        topics that will do.
        """
        known = len(self.recorded.partitions)
        running = max(self.observed.stateful_sets, default=-1) + 1
        wanted = (self.topics.partitions or 0) if self.topics.usable else 0
        return range(max(known, running, wanted))


@dataclass(slots=True)
class Findings:
    """What a look found wrong, and did. Filled by its steps. `look_within` are the seconds after which
    there is something to do at the latest."""

    stream_problems: list[Problem] = field(default_factory=list)
    partition_problems: dict[int, Problem] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    waiting: Sequence[int] = ()
    unsettled: Sequence[int] = ()
    claims: dict[int, ClaimChoice] = field(default_factory=dict)
    # Partitions whose store can't be told a source yet: they stay as they are.
    undecided: set[int] = field(default_factory=set)
    failovers: dict[int, Failover] = field(default_factory=dict)
    look_within: float | None = None

    def look_again_within(self, seconds: float) -> None:
        """There is something to do after so long, if not before."""
        self.look_within = min(self.look_within or seconds, seconds)
