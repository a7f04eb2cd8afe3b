"""The result of an audit, as plain values without Spark or Kafka."""

import json
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from operator import attrgetter

from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_crds.spec.topics import Mode


@dataclass(frozen=True, kw_only=True)
class PartitionAudit:
    """Counts of records of one partition. `raw_records` includes those `pending`.

    Ids are compared over all partitions: an id counts as unique in the partition with its first copy.
    `repeats_in_another_partition` are raw records, pending ones too, whose partition has no earlier copy of their id
    but another has: no worker recognises them. `duplicated_in_another_partition` is the part of `duplicated` that
    is in the output topic once in this partition, and in another one too. `removed_with_other_content` is the part of
    `removed` whose key or value differs from those that passed with the id: no defect, but other messages are lost if
    the ids are not unique. `late` are raw records that are in the topic
    for late messages instead.

    These look like defects and are none, see docs/audit.md: `before_input` are clean records of input that
    is deleted or not read, `before_output` raw records whose output may be deleted; `beyond_window` and `forgotten`
    are repeats that passed because the store had forgotten their id, for its age or size, or as a table of fixed
    size does, or on request; `known_before` are raw records whose id was delivered before the stream began.

    With a repartition the partition is that of the output: raw records count where their id came out, and the
    partition is None for those whose id came out nowhere.
    """

    partition: int | None
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
    removed_with_other_content: int = 0
    late: int = 0
    before_input: int = 0
    before_output: int = 0
    beyond_window: int = 0
    forgotten: int = 0
    forgotten_on_request: int = 0
    known_before: int = 0

    @property
    def judged_records(self) -> int:
        """Return the number of raw records that the output topic must account for."""
        return self.raw_records - self.pending - self.before_output

    @property
    def defects(self) -> int:
        """Return the number of defects."""
        return self.lost + self.duplicated + self.altered + self.reordered + self.foreign


@dataclass(frozen=True, kw_only=True)
class Defect:
    """One defect and its place; the offset is None in a topic without the record.

    A record that is duplicated in another partition has the place of the other copy in the output topic:
    `other_partition` and `other_offset`. With a repartition the partition is that of the output, None if the record is
    not there, and `origin` is the input topic and partition of `raw_offset`, such as `orders-eu/3`.
    """

    verdict: str
    partition: int | None
    raw_offset: int | None
    clean_offset: int | None
    other_partition: int | None = None
    other_offset: int | None = None
    origin: str | None = None


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


class Outcome(StrEnum):
    """The verdict of an audit. Nothing is called clean of which nothing was judged."""

    CLEAN = "Clean"
    DEFECTS = "Defects"
    NOTHING_JUDGED = "NothingJudged"


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """The verdict on one stream.

    lost: expected in the output topic, but absent. duplicated: there more often than expected, in all partitions
    together. altered: the key, value, headers or timestamp differ from the first raw copy of the partition. reordered:
    after a record that followed it in the input topic. foreign: in the clean partition, but not in the raw one.
    Everything but duplicates is judged within a partition, except that a message is not lost if another partition to
    which it was sent as well has passed it on.

    With a repartition all of the input is judged together with all of the output. altered: unlike every raw copy.
    reordered: after a record that followed it in one input partition and whose order is kept, as `repartitioned_by`
    says. foreign: in no input partition.
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
    late_topic: str | None = None
    repartitioned_by: RepartitionBy | None = None

    @cached_property
    def total(self) -> PartitionAudit:
        """Return the sum of all partitions, as partition -1."""
        names = [name for name in PartitionAudit.__dataclass_fields__ if name != "partition"]
        return PartitionAudit(
            partition=-1, **{name: sum(map(attrgetter(name), self.partitions)) for name in names}
        )

    @property
    def outcome(self) -> Outcome:
        """Return whether something is lost, duplicated, altered, reordered or foreign."""
        if self.total.defects:
            return Outcome.DEFECTS
        return Outcome.CLEAN if self.total.judged_records else Outcome.NOTHING_JUDGED

    @property
    def is_clean(self) -> bool:
        """Return whether records were judged, and none of them has a defect."""
        return self.outcome is Outcome.CLEAN

    @property
    def advice(self) -> tuple[str, ...]:
        """Return in sentences what is wrong outside of the workers, and what to do."""
        return tuple(self._advice())

    def _advice(self) -> Iterator[str]:
        if self.repartitioned_by is not None:
            yield from self._advice_on_routes(self.repartitioned_by)
        else:
            yield from self._advice_on_partitions()
        if other := self.total.removed_with_other_content:
            yield (
                f"{other:,} of the {self.total.removed:,} removed records have another key or value than what passed "
                "with their id. They are repeats only if equal ids are the same message, in all input topics together. "
                f"If ids of {self.raw_topic} are unique only within a topic, or are used again, these messages are "
                "missing in the output: choose another spec.id, or one stream for each topic. See docs/audit.md."
            )

    def _advice_on_partitions(self) -> Iterator[str]:
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

    def _advice_on_routes(self, by: RepartitionBy) -> Iterator[str]:
        passed = self.total.duplicated_in_another_partition
        if passed and by is RepartitionBy.KEY:
            yield (
                f"{passed:,} records of {self.clean_topic} have an id that is in another partition too. With "
                "spec.repartition.by: Key the copies of an id meet only if they have the same key: producers must give "
                "equal ids equal keys. If they cannot, create another stream with by: Id."
            )
        elif passed:
            yield (
                f"{passed:,} records of {self.clean_topic} have an id that is in another partition too, although "
                f"routers send all copies of an id to one. Another program writes to {self.clean_topic} or to the "
                "repartition topic. Only the routers and workers of the stream may do that."
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
            "outcome": self.outcome,
            "judgedRecords": self.total.judged_records,
            "duplicateRate": self.duplicate_rate,
            "total": {k: v for k, v in asdict(self.total).items() if k != "partition"},
            "advice": self.advice,
            **asdict(self),
        }
        absent = (set() if self.late_topic else _OF_LATE) | (
            set() if self.repartitioned_by else _OF_REPARTITION
        )
        return json.dumps(_camel(document, absent), indent=2, default=datetime.isoformat)


# Only streams that have them show these fields, for what reads the JSON of others.
_OF_LATE = {"late", "late_topic"}
_OF_REPARTITION = {"origin", "repartitioned_by"}


def _camel(value: object, absent: Collection[str]) -> object:
    match value:
        case dict():
            kept = ((name, each) for name, each in value.items() if name not in absent)
            return {_camel_name(name): _camel(each, absent) for name, each in kept}
        case list() | tuple():
            return [_camel(item, absent) for item in value]
        case _:
            return value


def _camel_name(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(map(str.capitalize, rest))
