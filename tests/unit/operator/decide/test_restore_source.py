"""What a store is made from: the newest copy that may be used, each better one refused with its reason."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_crds.spec.snapshots import SnapshotProvider
from dedupe_crds.status.snapshot import PartitionSnapshot, SnapshotPhase
from dedupe_crds.status.stream import RestoreSource
from dedupe_kafka.offsets import PartitionState
from dedupe_operator.decide.restore_source import Candidate, choose_source, refusal
from tests.unit.operator.objects import NOW

STATE = PartitionState(input_topic_id="in", output_topic_id="out", low=100, end=1000)


def entry(age_minutes: float = 10, **known: object) -> PartitionSnapshot:
    given: dict[str, Any] = {
        "partition": 0,
        "phase": SnapshotPhase.COMPLETED,
        "handle": "a-handle",
        "input_topic_id": "in",
        "output_topic_id": "out",
        "input_offset": 700,
        "output_position": 500,
        "completed": NOW - timedelta(minutes=age_minutes),
        **known,
    }
    return PartitionSnapshot(**given)


def candidate(name: str = "snap", **known: object) -> Candidate:
    given: dict[str, Any] = {
        "stream": "orders",
        "provider": SnapshotProvider.CSI,
        "entry": entry(),
        **known,
    }
    return Candidate(name=name, **given)


def refused(**known: object) -> str | None:
    return refusal(candidate("snap", **known), stream="orders", now=STATE)


@pytest.mark.parametrize("position", [100, 500, 1000])
def test_a_copy_within_what_the_topic_holds_may_be_used(position: int) -> None:
    assert refused(entry=entry(output_position=position)) is None


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({"stream": "payments"}, "of stream payments"),
        ({"entry": None}, "no copy of this partition"),
        ({"entry": entry(phase=SnapshotPhase.FAILED)}, "Failed, not Completed"),
        ({"entry": entry(phase=SnapshotPhase.RUNNING)}, "Running, not Completed"),
        ({"entry": entry(output_topic_id="other")}, "the output topic was deleted"),
        ({"entry": entry(input_topic_id="other")}, "the input topic was deleted"),
        ({"entry": entry(output_topic_id=None)}, "the output topic was deleted"),
        ({"entry": entry(output_position=99)}, "no longer has the records after its position 99"),
        ({"entry": entry(output_position=1001)}, "ahead of the output topic"),
        ({"entry": entry(output_position=None)}, "ahead of the output topic"),
        ({"gone": "its copy is gone"}, "its copy is gone"),
        ({"failed": "wrong checksum"}, "wrong checksum"),
    ],
)
def test_a_copy_is_refused_with_the_reason(known: dict[str, object], why: str) -> None:
    assert why in (refused(**known) or "")


def test_a_copy_from_before_the_stream_had_routers_may_be_used() -> None:
    now = replace(STATE, earlier_inputs=frozenset({"raw"}))
    copy = candidate(entry=entry(input_topic_id="raw"))
    assert refusal(copy, stream="orders", now=now) is None
    assert refusal(copy, stream="orders", now=STATE) is not None


def test_the_newest_usable_copy_is_chosen_and_the_better_ones_say_why_not() -> None:
    candidates = [
        candidate("oldest", entry=entry(30)),
        candidate("newest", entry=entry(10), failed="wrong checksum"),
        candidate("middle", entry=entry(20)),
    ]
    rung = choose_source(candidates, stream="orders", now=STATE)
    assert (rung.source, rung.name) == (RestoreSource.SNAPSHOT, "middle")
    assert rung.refused == ("newest: wrong checksum",)


def test_a_copy_in_a_bucket_is_a_checkpoint() -> None:
    rung = choose_source([candidate(provider=SnapshotProvider.S3)], stream="orders", now=STATE)
    assert rung.source is RestoreSource.CHECKPOINT


def test_without_a_usable_copy_the_store_is_rebuilt() -> None:
    rung = choose_source(
        [candidate("a", gone="gone"), candidate("b", entry=None)], stream="orders", now=STATE
    )
    assert (rung.source, rung.name) == (RestoreSource.OUTPUT_TOPIC, None)
    assert len(rung.refused) == 2
    assert choose_source([], stream="orders", now=STATE).source is RestoreSource.OUTPUT_TOPIC


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 1100), st.booleans()), max_size=8))
def test_the_choice_is_the_newest_that_is_not_refused(made: list[tuple[int, int, bool]]) -> None:
    candidates = [
        candidate(
            f"s{number}",
            entry=entry(age, output_position=position),
            gone="gone" if gone else None,
        )
        for number, (age, position, gone) in enumerate(made)
    ]
    rung = choose_source(candidates, stream="orders", now=STATE)
    usable = [one for one in candidates if refusal(one, stream="orders", now=STATE) is None]
    if not usable:
        assert rung.source is RestoreSource.OUTPUT_TOPIC
        assert len(rung.refused) == len(candidates)
        return
    ages = {one.name: one.entry.completed for one in candidates if one.entry}
    newest = max(ages[one.name] or NOW for one in usable)
    assert rung.name is not None
    assert ages[rung.name] == newest
    assert {text.partition(":")[0] for text in rung.refused}.isdisjoint(one.name for one in usable)
