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
GROUP: Final = "default.sim"
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

    def __str__(self) -> str:
        default = Settings()
        changed = [
            f"{each.name}={getattr(self, each.name)}"
            for each in fields(self)
            if getattr(self, each.name) != getattr(default, each.name)
        ]
        return ", ".join(changed) or "defaults"

    @property
    def topics(self) -> list[str]:
        """Return the names of all topics of the stream."""
        sides = {DUPLICATES: self.duplicates, CONFLICTS: self.conflicts, LATE: self.late}
        owners = [f"{OUTPUT}-owners"] if self.notes_owners else []
        return [INPUT, OUTPUT, *(name for name, wanted in sides.items() if wanted), *owners]

    @property
    def notes_owners(self) -> bool:
        """Return whether the stream has a topic that notes the owner of each output record."""
        return self.duplicates or self.conflicts

    @property
    def largest_transaction(self) -> int:
        """Return how many ids may be written at once."""
        return min(1000, self.transaction_records + self.batch_records)

    @property
    def bytes_per_id(self) -> int:
        """Return the size that an id is taken to have on disk."""
        return max(64, WINDOW_BYTES // self.window_ids)


@lru_cache(maxsize=256)
def stream_of(settings: Settings) -> DedupeStream:
    """Return the manifest of a stream with these settings."""
    spec: dict[str, Any] = {
        "kafka": {
            "bootstrapServers": "sim:9092",
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
