"""The result of an audit, as plain values without Spark or Kafka."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from operator import attrgetter

from dedupe_crds.spec.topics import Mode


@dataclass(frozen=True, kw_only=True)
class PartitionAudit:
    """Counts of records of one partition. `raw_records` includes those `pending`.

    Ids are compared over all partitions: an id counts as unique in the partition with its first copy.
    `repeats_in_another_partition` are raw records, pending ones too, whose partition has no earlier copy of their id
    but another has: no worker recognises them. `duplicated_in_another_partition` is the part of `duplicated` that
    is in the output topic once in this partition, and in another one too.
    """

    partition: int
    raw_records: int
    clean_records: int
    pending: int
    unique_ids: int
    repeats: int
    repeats_in_another_partition: int
    without_id: int
    removed: int
    lost: int
    duplicated: int
    duplicated_in_another_partition: int
    altered: int
    reordered: int
    foreign: int

    @property
    def judged_records(self) -> int:
        """Return the number of raw records that the output topic must account for."""
        return self.raw_records - self.pending

    @property
    def defects(self) -> int:
        """Return the number of defects."""
        return self.lost + self.duplicated + self.altered + self.reordered + self.foreign


@dataclass(frozen=True, kw_only=True)
class Defect:
    """One defect and its place; the offset is None in a topic without the record.

    A record that is duplicated in another partition has the place of the other copy in the output topic:
    `other_partition` and `other_offset`.
    """

    verdict: str
    partition: int
    raw_offset: int | None
    clean_offset: int | None
    other_partition: int | None = None
    other_offset: int | None = None


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Repeats whose delay (ms) or distance (records) is from `low` to below `high`."""

    low: float
    high: float
    records: int


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """The distances of repeats from their first copy.

    Bins have equal width on a log axis.
    """

    unit: str
    bins: tuple[Bin, ...]
    p50: float | None
    p90: float | None
    p99: float | None
    maximum: float | None


@dataclass(frozen=True, kw_only=True)
class TimeSlice:
    """Records whose timestamp is within `seconds` from `start`."""

    start: datetime
    seconds: float
    raw: int
    clean: int
    repeats: int


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """The verdict on one stream.

    lost: expected in the output topic, but absent. duplicated: there more often than expected, in all partitions
    together. altered: the key, value, headers or timestamp differ from the first raw copy of the partition. reordered:
    after a record that followed it in the input topic. foreign: in the clean partition, but not in the raw one.
    Everything but duplicates is judged within a partition, except that a message is not lost if another partition to
    which it was sent as well has passed it on.
    """

    stream: str
    raw_topic: str
    clean_topic: str
    mode: Mode
    judged_at: datetime
    seconds: float
    partitions: tuple[PartitionAudit, ...]
    delay: Distribution
    distance: Distribution
    timeline: tuple[TimeSlice, ...]
    examples: tuple[Defect, ...]
    warnings: tuple[str, ...]

    @cached_property
    def total(self) -> PartitionAudit:
        """Return the sum of all partitions, as partition -1."""
        names = [name for name in PartitionAudit.__dataclass_fields__ if name != "partition"]
        return PartitionAudit(
            partition=-1, **{name: sum(map(attrgetter(name), self.partitions)) for name in names}
        )

    @property
    def is_clean(self) -> bool:
        """Return whether nothing is lost, duplicated, altered, reordered or foreign."""
        return self.total.defects == 0

    @property
    def advice(self) -> tuple[str, ...]:
        """Return in sentences what is wrong outside of the workers, and what to do."""
        return tuple(self._advice())

    def _advice(self) -> Iterator[str]:
        sent = self.total.repeats_in_another_partition
        passed = self.total.duplicated_in_another_partition
        if sent:
            yield (
                f"{sent:,} records of {self.raw_topic} repeat an id that is in another partition too. The workers do "
                "not recognise them, because each worker knows only the ids of its own partition. Producers must send "
                "equal ids to the same partition: use the id as the key of the record, with the same partitioner in "
                "all producers, and do not change the number of partitions. See the same-partition rule in "
                "docs/concepts.md."
            )
        if passed > sent:
            yield (
                f"{passed - sent:,} records of {self.clean_topic} have an id that is in another partition too, but was "
                f"not sent to theirs. If retention has not deleted it from {self.raw_topic}, another program writes to "
                f"{self.clean_topic}. Only the workers of the stream may do that."
            )

    @property
    def duplicate_rate(self) -> float:
        """Return the share of repeats in the audited raw records, 0 to 1."""
        judged = self.total.judged_records
        return self.total.repeats / judged if judged else 0.0

    def to_json(self) -> str:
        """Return the whole result with totals as indented JSON; times in ISO 8601."""
        document = {
            "clean": self.is_clean,
            "duplicateRate": self.duplicate_rate,
            "total": {k: v for k, v in asdict(self.total).items() if k != "partition"},
            "advice": self.advice,
            **asdict(self),
        }
        return json.dumps(dict(_camel_keys(document)), indent=2, default=datetime.isoformat)


def _camel_keys(document: dict[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in document.items():
        head, *rest = name.split("_")
        yield head + "".join(map(str.capitalize, rest)), _camel(value)


def _camel(value: object) -> object:
    match value:
        case dict():
            return dict(_camel_keys(value))
        case list() | tuple():
            return [_camel(item) for item in value]
        case _:
            return value
