"""Audit results to show, without a topic."""

from datetime import UTC, datetime, timedelta

from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_crds.spec.topics import Mode
from dedupe_pipeline.jobs.audit.result import (
    AuditResult,
    Bin,
    Defect,
    Distribution,
    PartitionAudit,
    TimeSlice,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def partition(number: int | None, **counts: int) -> PartitionAudit:
    """100 records of which 5 repeat, all as it should be but for what is given."""
    usual = {
        "raw_records": 100,
        "clean_records": 95,
        "unique_ids": 94,
        "repeats": 5,
        "repeats_in_another_partition": 0,
        "without_id": 1,
        "removed": 5,
        "pending": 0,
        "duplicated_in_another_partition": 0,
        **dict.fromkeys(("lost", "duplicated", "altered", "reordered", "foreign"), 0),
    }
    return PartitionAudit(partition=number, **(usual | counts))


def distribution(unit: str, *bins: Bin) -> Distribution:
    quantiles = (1.0, 10.0, 100.0, 90_000.0) if bins else (None,) * 4
    return Distribution(
        unit=unit, bins=bins, **dict(zip(("p50", "p90", "p99", "maximum"), quantiles, strict=True))
    )


def result(
    *partitions: PartitionAudit,
    empty: bool = False,
    mode: Mode = Mode.ENFORCE,
    late_topic: str | None = None,
    repartitioned_by: RepartitionBy | None = None,
) -> AuditResult:
    """An audit of these partitions with two slices of time, or of topics with nothing in them."""
    bins = () if empty else (Bin(low=0, high=1, records=3), Bin(low=1000, high=1585, records=2))
    slices = () if empty else (NOON, NOON + timedelta(minutes=1))
    return AuditResult(
        stream="shop/orders",
        raw_topic="orders",
        clean_topic="orders<clean>",
        mode=mode,
        judged_at=NOON,
        seconds=1.5,
        partitions=partitions,
        delay=distribution("ms", *bins),
        distance=distribution("records", *bins),
        timeline=tuple(
            TimeSlice(start=start, seconds=60, raw=50, clean=47, repeats=3) for start in slices
        ),
        examples=tuple(example for one in partitions for example in _examples(one)),
        warnings=(),
        late_topic=late_topic,
        repartitioned_by=repartitioned_by,
    )


def _examples(one: PartitionAudit) -> list[Defect]:
    origin = "orders-eu/3" if one.partition is None else None
    lost = Defect(
        verdict="lost", partition=one.partition, raw_offset=17, clean_offset=None, origin=origin
    )
    across = Defect(
        verdict="duplicated",
        partition=one.partition,
        raw_offset=18,
        clean_offset=5,
        other_partition=(one.partition or 0) + 1,
        other_offset=7,
    )
    return [lost] * bool(one.lost) + [across] * bool(one.duplicated_in_another_partition)
