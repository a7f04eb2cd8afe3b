"""The verdict follows from the counts, and JSON holds all of it."""

import json

import pytest

from dedupe_pipeline.jobs.audit.verdicts import DEFECTS
from tests.unit.pipeline.jobs.audit.results import partition, result


def test_nothing_wrong_is_clean() -> None:
    assert result(partition(0), partition(1)).is_clean


@pytest.mark.parametrize("defect", DEFECTS)
def test_one_defect_in_one_partition_is_not_clean(defect: str) -> None:
    assert not result(partition(0), partition(1, **{defect: 1})).is_clean


def test_pending_records_are_not_judged() -> None:
    judged = result(partition(0, pending=50), partition(1))

    assert judged.is_clean
    assert judged.total.judged_records == 150
    assert judged.duplicate_rate == 10 / 150


def test_an_empty_topic_has_no_duplicates() -> None:
    assert result(partition(0, raw_records=0), empty=True).duplicate_rate == 0


def test_json_holds_the_verdict_the_totals_and_every_partition() -> None:
    document = json.loads(result(partition(0), partition(1, lost=2)).to_json())

    assert document["clean"] is False
    assert document["total"]["lost"] == 2
    assert document["total"]["rawRecords"] == 200
    assert [one["partition"] for one in document["partitions"]] == [0, 1]
    assert document["judgedAt"] == "2026-11-21T12:00:00+00:00"
    assert document["examples"] == [
        {"verdict": "lost", "partition": 1, "rawOffset": 17, "cleanOffset": None}
    ]
