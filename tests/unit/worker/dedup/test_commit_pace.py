"""The interval between commits follows the records in them, within its bounds."""

from datetime import timedelta

import pytest

from dedupe_crds.spec.worker import Tuning
from dedupe_worker.dedup.commit_pace import CommitPace


def test_few_records_lengthen_it_up_to_the_bound() -> None:
    pace = CommitPace(0.025, 0.1)
    seen = []
    for _ in range(4):
        pace.committed(1)
        seen.append(pace.seconds)
    assert seen == [0.05, 0.1, 0.1, 0.1]


def test_many_records_shorten_it_and_some_leave_it() -> None:
    pace = CommitPace(0.025, 0.1)
    pace.committed(1)
    pace.committed(1)
    seen = []
    for records in (50, 100, 99, 1_000, 100_000):
        pace.committed(records)
        seen.append(pace.seconds)
    assert seen == [0.1, 0.05, 0.05, 0.025, 0.025]


def test_a_record_after_a_pause_waits_no_longer_than_the_shortest() -> None:
    pace = CommitPace(0.025, 1.0)
    for _ in range(10):
        pace.committed(1)
    pace.paused()
    assert pace.seconds == 0.025


@pytest.mark.parametrize("records", [1, 1_000])
def test_equal_bounds_fix_it(records: int) -> None:
    pace = CommitPace(0.5, 0.1)
    pace.committed(records)
    assert pace.seconds == 0.5


@pytest.mark.parametrize(
    ("tuning", "partitions", "seconds"),
    [
        ({}, 1, 0.025),
        ({}, 250, 0.025),
        ({}, 1000, 0.1),
        ({"commitInterval": "200ms"}, 1000, 0.2),
        ({"maxCommitInterval": "40ms"}, 1000, 0.04),
        ({"maxCommitInterval": "1ms"}, 1000, 0.025),
        ({"maxCommitInterval": "1s"}, 1, 1.0),
    ],
)
def test_the_bound_is_the_manifests_or_follows_the_partitions(
    tuning: dict[str, str], partitions: int, seconds: float
) -> None:
    found = Tuning.model_validate(tuning).longest_commit_interval(partitions)
    assert found == timedelta(seconds=seconds)
