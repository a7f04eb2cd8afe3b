"""The result of an audit, as plain values without Spark or Kafka."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cached_property
from operator import attrgetter


@dataclass(frozen=True, kw_only=True)
class PartitionAudit:
    """Counts of records of one partition. `raw_records` includes those `pending`."""

    partition: int
    raw_records: int
    clean_records: int
    pending: int
    unique_ids: int
    repeats: int
    without_id: int
    removed: int
    lost: int
    duplicated: int
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
    """One defect and its place; the offset is None in a topic without the record."""

    verdict: str
    partition: int
    raw_offset: int | None
    clean_offset: int | None


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

    lost: expected in the output topic, but absent. duplicated: there more often than expected. altered: the key, value,
    headers or timestamp differ from the first raw copy. reordered: after a record that followed it in the input topic.
    foreign: in the clean partition, but not in the raw one.
    """

    stream: str
    raw_topic: str
    clean_topic: str
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
