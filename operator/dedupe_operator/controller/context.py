"""Inputs and outputs of one reconcile pass.

The reconciler builds a `ReconcileContext` once, at the start of a pass, and hands it with a `ReconcileResult` to each
step. A step reads the context and adds to the result.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final

from dedupe_crds.spec.repartition import MOST_PARTITIONS
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.router import RouterStatus
from dedupe_crds.status.stream import Failover, PartitionStatus, StreamStatus
from dedupe_crds.status.worker import WorkerStatus
from dedupe_kafka.offsets import PartitionState
from dedupe_operator.controller.observe import Observed
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.decide.diagnosis import Problem, with_advice
from dedupe_operator.decide.growth import GrowthView
from dedupe_operator.decide.pod_readiness import is_ready
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.decide.volume_claims import ClaimChoice
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.event_reader import EventReader
from dedupe_operator.kubernetes.names import SERVED, Object
from dedupe_operator.kubernetes.resources import CONFIG_MAPS
from dedupe_operator.kubernetes.storage_classes import StorageClasses
from dedupe_operator.resources import config_map
from dedupe_operator.topic_watch import PartitionStates, TopicsView

_NUMBER: Final = re.compile("[0-9]{1,5}")  # users can write any text there


def known_partitions(recorded: StreamStatus, observed: Observed) -> int:
    """Return the number of partitions that have workers; 0 if that is not known."""
    numbers = (each.partition for each in recorded.partitions)
    # Whoever may write a status can write any number there.
    last = max((each for each in numbers if each < MOST_PARTITIONS), default=-1)
    counted = min(recorded.partition_count or 0, MOST_PARTITIONS)
    return max(counted, last + 1, max(observed.stateful_sets, default=-1) + 1)


def served_partitions(observed: Observed) -> int:
    """Return the number of partitions that the claims show; 0 without claims.

    They may be those of a stream that was deleted. Each claim says how many partitions there were, because the stream
    may have been deleted before all of its claims were created.
    """
    told = [max(observed.claims, default=-1) + 1]
    for claims in observed.claims.values():
        said = [(each["metadata"].get("annotations") or {}).get(SERVED, "") for each in claims]
        told += [int(each) for each in said if _NUMBER.fullmatch(each)]
    return max(told)


def direct_input(stream: DedupeStream, observed: Observed) -> str | None:
    """Return the topic that workers read themselves although the manifest has routers.

    None if there are no such workers. The manifest that they mount says so, also for one that starts again. They mount
    another once the epoch log has the change to routers. "" if it can't be read, and there are no routers.
    """
    if stream.spec.repartition is None or not observed.stateful_sets:
        return None
    for stateful_set in observed.stateful_sets.values():
        name = config_map.mounted(stateful_set["spec"]["template"])
        topic = config_map.direct_input(observed.children.get((CONFIG_MAPS.kind, name or "")))
        if topic or (topic == "" and observed.router_set is None):
            return topic
    return None


@dataclass(frozen=True, kw_only=True)
class ReconcileContext:
    """A stream and its surroundings, as observed at the start of the pass.

    `metadata` is that of the object, `recorded` the status before the pass. `secrets_hash` is None if the Kafka
    credentials can't be read; then no worker is started or changed. `workers` and `routers` have the status of each
    process whose pod has an address. `growth` is None without routers.
    """

    stream: DedupeStream
    metadata: Object = field(repr=False)
    recorded: StreamStatus
    observed: Observed
    topics: TopicsView
    admin_token: str = field(repr=False)
    secrets_hash: str | None
    kafka_secret: Mapping[str, bytes] = field(repr=False)
    states: PartitionStates = field(repr=False)
    workers: Mapping[int, WorkerStatus | None]
    now: datetime
    events: EventReader = field(repr=False)
    classes: StorageClasses = field(repr=False)
    routers: Mapping[int, RouterStatus | None] = field(default_factory=dict)
    growth: GrowthView | None = None

    @property
    def key(self) -> Key:
        """Return the namespace and name of the stream."""
        return Key(self.stream.metadata.namespace, self.stream.metadata.name)

    @property
    def generation(self) -> int:
        """Return the generation of the stream's manifest."""
        return int(self.metadata["generation"])

    @property
    def created(self) -> datetime:
        """Return the time at which the stream was created."""
        return datetime.fromisoformat(self.metadata["creationTimestamp"])

    def partition_state(self, partition: int) -> PartitionState:
        """Return the state of a partition's topics, by which copies of it are judged.

        Raises AnswerPending, and StreamError if Kafka does not tell.
        """
        name = self.stream.metadata.name
        entries = [
            entry
            for each in self.observed.snapshots
            for entry in each.status.partitions
            if each.stream == name
        ]
        return self.states.get(
            *(self.stream, self.kafka_secret, partition, self.partitions),
            newest_copy=max((each.completed for each in entries if each.completed), default=None),
        )

    def recorded_partition(self, partition: int) -> PartitionStatus | None:
        """Return a partition's entry in the recorded status."""
        return self._recorded.get(partition)

    @cached_property
    def _recorded(self) -> Mapping[int, PartitionStatus]:
        return {each.partition: each for each in self.recorded.partitions}

    @cached_property
    def partitions(self) -> range:
        """Return the partitions to manage.

        Existing ones stay, whatever the partition count of the input topic is now; new ones start only if the topics
        are usable, and if the stream accepts those that were added to its input. Of a stream with routers those of the
        epoch log are managed: it has the manifest's number once a growth has begun.
        """
        wanted = (self.topics.partitions or 0) if self.topics.usable else 0
        served = wanted - len(self.topics.added)
        if self.growth is not None:
            served = min(wanted, self.growth.epochs.workers)
        return range(max(known_partitions(self.recorded, self.observed), served))

    @property
    def learning(self) -> frozenset[int]:
        """Return the partitions that a growth adds, and whose workers learn their ids."""
        return self.growth.learning(self.workers) if self.growth else frozenset()

    @property
    def unready_added(self) -> int:
        """Return the number of added partitions whose pods are not ready."""
        added = self.growth.added if self.growth else ()
        return sum(not is_ready(self.observed.pods.get(partition)) for partition in added)

    @property
    def joining(self) -> frozenset[int]:
        """Return the partitions that a growth adds, and that do not count yet."""
        return self.growth.joining(self.workers) if self.growth else frozenset()


@dataclass(slots=True)
class ReconcileResult:
    """Problems, events and choices of one pass, filled in by its steps.

    `waiting` are partitions whose rollout has not begun, `starting` those whose worker is not ready yet; with
    `routers_change` not all routers have the newest template. `undecided` are partitions with no restore source yet;
    they stay unchanged in this pass. `requeue_seconds`: the next pass is due after this time at the latest.
    """

    stream_problems: list[Problem] = field(default_factory=list)
    partition_problems: dict[int, Problem] = field(default_factory=dict)
    events: list[StreamEvent] = field(default_factory=list)
    waiting: Sequence[int] = ()
    starting: Sequence[int] = ()
    claims: dict[int, ClaimChoice] = field(default_factory=dict)
    undecided: set[int] = field(default_factory=set)
    failovers: dict[int, Failover] = field(default_factory=dict)
    routers_change: bool = False
    router_problems: dict[int, Problem] = field(default_factory=dict)
    requeue_seconds: float | None = None

    @contextmanager
    def reporting(self, what: str = "") -> Iterator[None]:
        """Report a refusal of the block as a problem of the stream, after `what`."""
        try:
            yield
        except KubernetesError as error:
            self.stream_problems.append(with_advice(error.reason, f"{what}{error}"))

    def requeue_within(self, seconds: float) -> None:
        """Ask for the next pass after this time at the latest."""
        self.requeue_seconds = min(self.requeue_seconds or seconds, seconds)
