"""The demo's verdict on itself."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dedupe_pipeline.audit.result import AuditResult, Distribution, PartitionAudit
from examples.flights.outcome import Answer, Deduplicated, Outcome, Recovery, Sent

NOTHING = Distribution(unit="ms", bins=(), p50=None, p90=None, p99=None, maximum=None)
PARTITION = PartitionAudit(
    partition=0,
    raw_records=105,
    clean_records=100,
    pending=0,
    unique_ids=100,
    repeats=5,
    without_id=0,
    removed=5,
    lost=0,
    duplicated=0,
    altered=0,
    reordered=0,
    foreign=0,
)
ANSWER = Answer(
    busiest_day="2013-01-01", flights_that_day=9, median_delay_minutes=0, flights_in_all=9
)


def outcome(landed_records: int = 100, **found: int) -> Outcome:
    audit = AuditResult(
        stream="demo/flights",
        raw_topic="flights",
        clean_topic="flights-clean",
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
            read_before=50,
            reconciled_records=1,
            ready_seconds=1,
            output_seconds=1,
        ),
        landed_records=landed_records,
        clean_answer=ANSWER,
        raw_answer=ANSWER,
        audit=audit,
        step_seconds={},
        seconds=1,
    )


def test_a_run_without_defects_has_no_problems() -> None:
    assert outcome().problems() == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"lost": 1}, "1 records are lost."),
        ({"duplicated": 2}, "2 records are there more than once."),
        ({"altered": 3}, "3 records are altered."),
        ({"reordered": 4}, "4 records are out of order."),
        ({"foreign": 5}, "5 records are of no message that was sent."),
    ],
)
def test_each_defect_of_the_audit_is_a_problem(found: dict[str, int], said: str) -> None:
    assert outcome(**found).problems() == [said]


def test_what_the_topics_cannot_tell_is_held_against_what_was_sent() -> None:
    """A record that never reached the input topic is one the audit cannot miss."""
    problems = outcome(
        raw_records=104, unique_ids=99, clean_records=99, landed_records=98
    ).problems()

    assert problems == [
        "104 records are in the input topic, where 105 should be.",
        "99 different messages are in the input topic, where 100 should be.",
        "99 records are in the clean topic, where 100 should be.",
        "98 records are in Parquet, where 100 should be.",
    ]
