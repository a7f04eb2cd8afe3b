"""The verdict follows from the counts, and JSON holds all of it."""

import json

import pytest

from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_pipeline.jobs.audit.result import Outcome
from dedupe_pipeline.jobs.audit.verdicts import DEFECTS
from tests.unit.pipeline.jobs.audit.results import partition, result


def test_nothing_wrong_is_clean() -> None:
    assert result(partition(0), partition(1)).is_clean


@pytest.mark.parametrize("defect", DEFECTS)
def test_one_defect_in_one_partition_is_not_clean(defect: str) -> None:
    assert not result(partition(0), partition(1, **{defect: 1})).is_clean


def test_nothing_is_clean_of_which_nothing_was_judged() -> None:
    for nothing in (
        result(),
        result(partition(0, pending=100)),
        result(partition(0, raw_records=0)),
    ):
        assert nothing.outcome is Outcome.NOTHING_JUDGED
        assert json.loads(nothing.to_json())["clean"] is False
    assert result(partition(0, pending=100, foreign=1)).outcome is Outcome.DEFECTS


def test_pending_records_are_not_judged() -> None:
    judged = result(partition(0, pending=50), partition(1))

    assert judged.is_clean
    assert judged.total.judged_records == 150
    assert judged.duplicate_rate == 10 / 150


def test_an_empty_topic_has_no_duplicates() -> None:
    assert result(partition(0, raw_records=0), empty=True).duplicate_rate == 0


def test_copies_across_partitions_are_a_part_of_the_duplicated_and_not_more_defects() -> None:
    found = result(partition(0), partition(1, duplicated=7, duplicated_in_another_partition=4))

    assert found.total.defects == 7


def test_the_advice_is_for_the_producers_if_they_sent_the_copies() -> None:
    counts = {"duplicated": 4, "duplicated_in_another_partition": 4}
    sent = result(partition(0, **counts, repeats_in_another_partition=4))
    written = result(partition(0, **counts))
    both = result(partition(0, **counts, repeats_in_another_partition=3))

    assert result(partition(0, duplicated=4)).advice == ()
    assert [text.split(".")[0] for text in sent.advice] == [
        "4 records of orders repeat an id that is in another partition too"
    ]
    assert "another program writes to orders<clean>" in written.advice[0]
    assert len(written.advice) == 1
    assert both.advice[1].startswith("1 records of orders<clean>")


def test_json_holds_the_verdict_the_totals_and_every_partition() -> None:
    document = json.loads(result(partition(0), partition(1, lost=2)).to_json())

    assert document["clean"] is False
    assert document["total"]["lost"] == 2
    assert document["total"]["rawRecords"] == 200
    assert [one["partition"] for one in document["partitions"]] == [0, 1]
    assert document["judgedAt"] == "2026-11-21T12:00:00+00:00"
    assert document["examples"] == [
        {
            "verdict": "lost",
            "partition": 1,
            "rawOffset": 17,
            "cleanOffset": None,
            "otherPartition": None,
            "otherOffset": None,
        }
    ]


def test_json_holds_what_is_duplicated_across_partitions_and_the_advice() -> None:
    counts = {"duplicated_in_another_partition": 4, "repeats_in_another_partition": 4}
    document = json.loads(result(partition(0, duplicated=7, **counts)).to_json())

    assert document["mode"] == "Enforce"
    assert document["total"]["duplicated"] == 7
    assert document["total"]["duplicatedInAnotherPartition"] == 4
    assert document["total"]["repeatsInAnotherPartition"] == 4
    assert document["partitions"][0]["duplicatedInAnotherPartition"] == 4
    assert [one["otherPartition"] for one in document["examples"]] == [1]
    assert "Producers must send equal ids to the same partition" in document["advice"][0]


@pytest.mark.parametrize(
    ("by", "said"),
    [
        (RepartitionBy.ID, "Another program writes to orders<clean> or to the repartition topic"),
        (RepartitionBy.KEY, "producers must give equal ids equal keys"),
    ],
)
def test_the_advice_of_a_repartition_is_not_that_of_one_partition(
    by: RepartitionBy, said: str
) -> None:
    counts = {"duplicated": 4, "duplicated_in_another_partition": 4}

    [advice] = result(partition(0, **counts), repartitioned_by=by).advice

    assert advice.startswith("4 records of orders<clean> have an id that is in another partition")
    assert said in advice
    assert result(partition(0, duplicated=4), repartitioned_by=by).advice == ()


def test_json_has_the_fields_of_a_stage_only_for_a_stream_that_has_it() -> None:
    usual = json.loads(result(partition(0, lost=1)).to_json())
    staged = json.loads(
        result(
            partition(None, lost=1), late_topic="late", repartitioned_by=RepartitionBy.ID
        ).to_json()
    )

    assert staged.keys() - usual.keys() == {"lateTopic", "repartitionedBy"}
    for name, only in (("partitions", {"late"}), ("examples", {"origin"})):
        assert staged[name][0].keys() - usual[name][0].keys() == only
    assert staged["total"].keys() - usual["total"].keys() == {"late"}
    assert staged["repartitionedBy"] == "Id"
    assert staged["partitions"][0]["partition"] is None
