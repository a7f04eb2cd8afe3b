"""An outcome of the demo without problems, which tests change."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from dedupe_crds.spec.topics import Mode
from dedupe_pipeline.jobs.audit.result import AuditResult, Distribution, PartitionAudit
from examples.flights.outcome import (
    Answer,
    CarrierDelays,
    Counting,
    Deduplicated,
    Explained,
    Outcome,
    Read,
    Recovery,
    Sample,
    Sent,
    Skipping,
    Timeline,
)

NOTHING = Distribution(unit="ms", bins=(), p50=None, p90=None, p99=None, maximum=None)
PARTITION = PartitionAudit(
    partition=0,
    raw_records=105,
    clean_records=100,
    pending=0,
    unique_ids=100,
    repeats=5,
    repeats_in_another_partition=0,
    without_id=0,
    removed=5,
    lost=0,
    duplicated=0,
    duplicated_in_another_partition=0,
    altered=0,
    reordered=0,
    foreign=0,
)
ANSWER = Answer(
    busiest_day="2013-01-01", flights_that_day=9, median_delay_minutes=0, flights_in_all=9
)
EXPLAINED = Explained(records=5, misattributed=0, ages_ms={0: 3, 1500: 2})
SKIPPING = Skipping(
    carrier="AA",
    flights=10,
    reads=[
        Read(reader="plain reader", records=10, right=True, fetched_bytes=1000, seconds=2),
        Read(
            reader="plain reader, skipping",
            records=10,
            right=True,
            fetched_bytes=200,
            seconds=1,
            chunks=10,
            chunks_skipped=9,
        ),
    ],
)
COUNTING = Counting(
    table="flights_hourly",
    url="postgresql://localhost/demo",
    rows=7,
    wrong_rows=0,
    records=100,
    killed_at=40,
    most_flights=[
        CarrierDelays(
            carrier="UA",
            flights=60,
            departures=58,
            mean_delay_minutes=12.5,
            worst_delay_minutes=99,
        )
    ],
)
TIMELINE = Timeline(
    sent=[(0, 0), (2, 60), (4, 105)],
    samples=[
        [
            Sample(at_seconds=at, process=process, produced=produced, window_seconds=at)
            for at, process, produced in ((0, 0, 0), (1.5, 0, 40), (4, 1, 100))
        ]
    ],
)


def outcome(
    landed_records: int = 100,
    explained: Explained = EXPLAINED,
    skipping: Skipping | None = None,
    counting: Counting | None = None,
    **found: int,
) -> Outcome:
    """Return a run without problems, except for the arguments; `found` are fields of the audit."""
    audit = AuditResult(
        stream="demo/flights",
        raw_topic="flights",
        clean_topic="flights-clean",
        mode=Mode.ENFORCE,
        judged_at=datetime(2026, 1, 1, tzinfo=UTC),
        seconds=1,
        partitions=(replace(PARTITION, **found),),
        delay=NOTHING,
        distance=NOTHING,
        timeline=(),
        examples=(),
        warnings=(),
    )
    return Outcome(
        partitions=1,
        seed=1,
        sent=Sent(first=100, retries=3, replays=2, seconds=1),
        deduplicated=Deduplicated(records=105, seconds=1),
        recovery=Recovery(
            partition=0,
            killed_pid=1,
            killed_at_seconds=2,
            read_before=50,
            catch_up_records=1,
            ready_seconds=1,
            output_seconds=1.5,
        ),
        timeline=TIMELINE,
        landed_records=landed_records,
        clean_answer=ANSWER,
        raw_answer=ANSWER,
        explained=explained,
        skipping=skipping,
        counting=counting,
        audit=audit,
        step_seconds={},
        seconds=1,
    )


def scattered(**changed: int) -> Outcome:
    """Return a scattered run as it is meant to be, in which 2 duplicates pass, except for `changed`."""
    found: dict[str, Any] = {
        "clean_records": 102,
        "removed": 3,
        "duplicated": 2,
        "duplicated_in_another_partition": 2,
        "repeats_in_another_partition": 2,
    }
    run = outcome(
        landed_records=102,
        explained=EXPLAINED.model_copy(update={"records": 3, "ages_ms": {0: 2, 1500: 1}}),
        **(found | changed),
    )
    sent = run.sent.model_copy(update={"repeats_in_another_partition": 2})
    return run.model_copy(update={"scattered": True, "sent": sent})
