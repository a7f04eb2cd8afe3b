"""The configuration of a simulated stream."""

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.stream import DedupeStream

INPUT: Final = "raw"
OUTPUT: Final = "clean"
DUPLICATES: Final = "repeats"
CONFLICTS: Final = "conflicts"
LATE: Final = "late"
REPARTITION: Final = f"{OUTPUT}-repartition"
GROUP: Final = "default.sim"
ROUTER_GROUP: Final = f"{GROUP}.routers"
EPOCHS: Final = f"{OUTPUT}-epochs"
SERVERS: Final = "sim:9092"
WINDOW_BYTES: Final = 16 << 20
"""The smallest window that a manifest can have; see `Settings.window_ids`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a schedule may vary. Every default is the simplest choice, to which a failing seed is shrunk."""

    partitions: int = 1
    exactly_once: bool = True
    id_from: str = "Key"
    duplicates: bool = False
    conflicts: bool = False
    late: bool = False
    late_after_seconds: int | None = None
    table_slots: int | None = None
    """An inverse Bloom filter of this size."""
    max_age_seconds: int = 28 * 86400
    window_ids: int = 100_000
    """How many ids the window's bytes hold. Sizes on disk are a number of ids times a constant, see sizes.py."""
    generations: int = 5
    batch_records: int = 10_000
    transaction_records: int = 100_000
    commit_interval_ms: int = 25
    topic_ids: bool = True
    """Whether the brokers give topics a UUID."""
    accept_unproved: bool = False
    """Whether the user vouches for topics that such brokers can't tell apart."""
    inputs: tuple[int, ...] = ()
    """The partitions of each input of a stream with routers; none: the worker reads the input itself."""
    routers: int = 0
    grows_to: int = 0
    """The most partitions that the steps ask for; none: `partitions`."""
    by_key: bool = False
    """Routers send a record to the partition of its key, not of its id."""
    observes: bool = False
    """All records pass, as with `mode: Observe`."""
    direct: int = 0
    """The workers that read the first input themselves, until the stream gets routers; none: it began with them."""

    def __str__(self) -> str:
        default = Settings()
        changed = [
            f"{each.name}={getattr(self, each.name)}"
            for each in fields(self)
            if getattr(self, each.name) != getattr(default, each.name)
        ]
        return ", ".join(changed) or "defaults"

    @property
    def topics(self) -> dict[str, int]:
        """Return the names of all topics at the start, each with its number of partitions."""
        sides = {DUPLICATES: self.duplicates, CONFLICTS: self.conflicts, LATE: self.late}
        owners = [f"{OUTPUT}-owners"] if self.notes_owners else []
        own = [OUTPUT, *(name for name, wanted in sides.items() if wanted), *owners]
        inputs = dict(zip(self.input_topics, self.inputs, strict=True))
        if self.direct:
            return dict.fromkeys(own, self.direct) | inputs
        sizes = dict.fromkeys([self.worker_input, *own], self.partitions) | inputs
        return sizes | ({EPOCHS: 1} if self.inputs else {})

    def config_of(self, topic: str) -> dict[str, str]:
        """Return the configuration of a topic, where it is not the brokers' default."""
        if topic == EPOCHS:
            return {"cleanup.policy": "compact"}
        if topic == REPARTITION:
            return {"retention.ms": "-1", "retention.bytes": "-1"}
        return {}

    @property
    def seats(self) -> int:
        """Return how many partitions may have workers."""
        return max(self.partitions, self.grows_to)

    @property
    def worker_input(self) -> str:
        """Return the topic that the workers read."""
        return REPARTITION if self.inputs else INPUT

    @property
    def worker_inputs(self) -> list[str]:
        """Return the topics that the workers read, one after the other."""
        return [*([input_topic(0)] if self.direct else []), self.worker_input]

    @property
    def input_topics(self) -> list[str]:
        """Return the topics that the routers read."""
        return [input_topic(number) for number in range(len(self.inputs))]

    @property
    def notes_owners(self) -> bool:
        """Return whether the stream has a topic that notes the owner of each output record."""
        return self.duplicates or self.conflicts

    @property
    def largest_transaction(self) -> int:
        """Return how many ids may be written at once."""
        return min(1000, self.transaction_records + self.batch_records)

    @property
    def one_transaction_fills_window(self) -> bool:
        """Return whether the ids of one transaction may be more than the window holds."""
        return self.largest_transaction >= self.window_ids

    @property
    def bytes_per_id(self) -> int:
        """Return the size that an id is taken to have on disk."""
        return max(64, WINDOW_BYTES // self.window_ids)


def input_topic(number: int) -> str:
    """Return the name of an input of the routers."""
    return f"{INPUT}-{number}"


AcceptedLoss = tuple[str, int, int, int]
"""An entry of spec.input.acceptTruncated: topic, partition, offset and epoch."""


@lru_cache(maxsize=256)
def stream_of(
    settings: Settings,
    *,
    direct: bool = False,
    inputs: tuple[str, ...] | None = None,
    accepted: tuple[AcceptedLoss, ...] = (),
) -> DedupeStream:
    """Return the manifest of a stream with these settings.

    With `direct` the one before it got routers; `inputs` are those that it names, by default all that routers read;
    `accepted` are the losses of input that a person has accepted.
    """
    spec: dict[str, Any] = {
        "kafka": {
            "bootstrapServers": SERVERS,
            "acceptUnprovedTopics": settings.accept_unproved,
        },
        "input": {"topic": INPUT},
        "output": {"topic": OUTPUT},
        "id": {"from": "Header", "name": "id"}
        if settings.id_from == "Header"
        else {"from": settings.id_from},
        "delivery": "ExactlyOnce" if settings.exactly_once else "AtLeastOnce",
        "store": {
            "window": {
                "maxBytes": str(WINDOW_BYTES),
                "maxAge": f"{settings.max_age_seconds}s",
                "alertBelow": "0s",
                "generations": settings.generations,
            }
        },
        "worker": {
            "tuning": {
                "commitInterval": f"{settings.commit_interval_ms}ms",
                "maxBatchRecords": settings.batch_records,
                "maxTransactionRecords": settings.transaction_records,
                "blockCacheBytes": "1Mi",
            }
        },
        "storage": {"size": "1Gi"},
    }
    if direct:
        spec["input"] = {"topic": input_topic(0)}
    elif settings.inputs:
        spec["input"] = {"topics": list(inputs or settings.input_topics)}
        by = "Key" if settings.by_key else "Id"
        spec["repartition"] = {"by": by, "partitions": settings.partitions}
    if accepted:
        names = "topic", "partition", "offset", "epoch"
        losses = [dict(zip(names, each, strict=True)) for each in accepted]
        spec["input"]["acceptTruncated"] = losses
    if settings.observes:
        spec["mode"] = "Observe"
    if settings.duplicates:
        spec["duplicates"] = {"policy": "Topic", "topic": DUPLICATES}
    if settings.conflicts:
        spec["conflicts"] = {"policy": "Topic", "topic": CONFLICTS}
    if settings.late:
        spec["late"] = {"policy": "Topic", "topic": LATE}
        if settings.late_after_seconds:
            spec["late"]["maxAge"] = f"{settings.late_after_seconds}s"
    if settings.table_slots:
        spec["store"]["type"] = "InverseBloom"
        spec["store"]["inverseBloom"] = {"slots": settings.table_slots}
    return parse_manifest(
        {
            "apiVersion": "dedupestream.io/v1alpha1",
            "kind": "DedupeStream",
            "metadata": {"name": "sim", "namespace": "default"},
            "spec": spec,
        },
        "simulation",
    )
