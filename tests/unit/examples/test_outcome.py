"""The demo's check of its own results."""

import json
from typing import Any

import pytest

from tests.unit.examples.outcomes import COUNTING, EXPLAINED, SKIPPING, outcome, scattered


def test_a_run_without_defects_has_no_problems() -> None:
    assert outcome().problems() == []
    assert outcome(skipping=SKIPPING, counting=COUNTING).problems() == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"lost": 1}, "1 records are lost."),
        ({"duplicated": 2}, "2 records are duplicated."),
        ({"altered": 3}, "3 records are altered."),
        ({"reordered": 4}, "4 records are out of order."),
        ({"foreign": 5}, "5 records are not from any message that was sent."),
    ],
)
def test_each_defect_of_the_audit_is_a_problem(found: dict[str, Any], said: str) -> None:
    assert outcome(**found).problems() == [said]


def test_what_the_topics_cannot_tell_is_held_against_what_was_sent() -> None:
    """The audit cannot detect a record that never reached the input topic."""
    problems = outcome(
        raw_records=104, unique_ids=99, clean_records=99, landed_records=98
    ).problems()

    assert problems == [
        "104 records are in the input topic; expected: 105.",
        "99 different messages are in the input topic; expected: 100.",
        "99 records are in the clean topic; expected: 100.",
        "98 records are in Parquet; expected: 100.",
    ]


def test_each_duplicate_has_to_be_in_its_topic_with_the_record_that_it_repeats() -> None:
    explained = EXPLAINED.model_copy(update={"records": 4, "misattributed": 1})

    assert outcome(explained=explained).problems() == [
        "4 records are in the topic of duplicates; expected: 5.",
        "1 duplicates do not name their original record.",
    ]


def test_a_read_that_finds_others_is_a_problem() -> None:
    """Even if their number is the same."""
    everything, skipping = SKIPPING.reads
    wrong = skipping.model_copy(update={"right": False})
    found = SKIPPING.model_copy(update={"reads": [everything, wrong]})

    assert outcome(skipping=found).problems() == [
        "plain reader, skipping found 10 flights of AA that differ from the 10 that were sent."
    ]


def test_counts_that_are_not_those_of_the_flights_are_a_problem() -> None:
    wrong = COUNTING.model_copy(update={"wrong_rows": 2, "records": 101})

    assert outcome(counting=wrong).problems() == [
        "2 rows of flights_hourly in PostgreSQL are wrong or missing.",
        "101 records are counted in PostgreSQL; expected: 100.",
    ]


def test_the_figures_have_what_the_variants_found_and_null_without_them() -> None:
    plain = json.loads(outcome().to_json())
    both = json.loads(outcome(skipping=SKIPPING, counting=COUNTING).to_json())

    assert (plain["skipping"], plain["counting"]) == (None, None)
    assert both["skipping"]["reads"][1]["chunksSkipped"] == 9
    assert both["counting"]["killedAt"] == 40


def test_a_scattered_run_is_meant_to_pass_what_was_sent_to_other_partitions() -> None:
    assert scattered().problems() == []


def test_behind_routers_a_scattered_run_is_exactly_once() -> None:
    removed = {"clean_records": 100, "removed": 5, "duplicated": 0}
    nothing = {"duplicated_in_another_partition": 0, "repeats_in_another_partition": 0}
    routed = {"routed": True, "landed_records": 100, "explained": EXPLAINED}
    run = scattered(**removed, **nothing).model_copy(update=routed)
    assert (run.problems(), run.shows_passing) == ([], False)
    passed = scattered().model_copy(update=routed)
    assert (
        "2 duplicates in another partition are in the clean topic; expected: 0."
        in passed.problems()
    )


def test_duplicates_in_another_partition_are_a_problem_of_a_run_with_keys() -> None:
    across: dict[str, Any] = {"duplicated": 2, "duplicated_in_another_partition": 2}

    assert outcome(**across).problems() == [
        "2 duplicates in another partition are in the clean topic; expected: 0."
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"duplicated": 1, "duplicated_in_another_partition": 1},
            "1 duplicates in another partition are in the clean topic; expected: 2.",
        ),
        ({"duplicated": 3}, "1 records are duplicated."),
        ({"lost": 1}, "1 records are lost."),
    ],
)
def test_a_scattered_run_that_shows_anything_else_has_a_problem(
    changed: dict[str, int], said: str
) -> None:
    assert scattered(**changed).problems() == [said]


def test_a_scattered_run_without_duplicates_in_other_partitions_shows_nothing() -> None:
    without = outcome().model_copy(update={"scattered": True})

    assert without.problems() == [
        "No duplicate was sent to another partition, so nothing could be shown. "
        "Set more --rows or --duplicates."
    ]
