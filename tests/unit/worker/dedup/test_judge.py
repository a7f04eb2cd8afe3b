"""What becomes of a record, from what is known of its id and what the stream wants."""

from datetime import timedelta

import numpy as np
import pytest

from dedupe_crds.spec.topics import Delivery, Mode
from dedupe_worker.dedup.classify import Verdict, make_verdict
from dedupe_worker.dedup.policy import Policy, late_before
from dedupe_worker.dedup.side_headers import (
    AGE_HEADER,
    LATE_HEADER,
    ORIGINAL_HEADER,
    POSITION_HEADER,
)
from dedupe_worker.values import UNKNOWN_OWNER, Values, encode_owners
from tests.unit.worker.strategies import message

TOPICS = Policy(duplicates_topic="again", conflicts_topic="other")
# Offset 10 and 12 have an id, 11 has none; 12 came 500 ms after 10 did.
RECORDS = [
    message(10, b"a", b"1", time_ms=1_000),
    message(11, None, b"x"),
    message(12, b"a", b"1", time_ms=1_500),
]
ROWS = np.array([0, 2])
TIMES = np.array([1_000, 1, 1_500])


def values(policy: Policy, records: list = RECORDS) -> Values:  # type: ignore[type-arg] # of messages
    offsets = np.array([record.offset() for record in records], np.uint64)[ROWS]
    return policy.layout.encode(encode_owners(3, offsets), records, ROWS, TIMES)


def decide(policy: Policy, repeated: bytes) -> Verdict:
    """The second record with an id repeats what has this value."""
    return make_verdict(policy, RECORDS, ROWS, values(policy), {1: repeated})


def first(policy: Policy) -> bytes:
    found: bytes = values(policy)[0].tobytes()
    return found


def test_a_duplicate_is_dropped_and_what_has_no_id_passes() -> None:
    policy = Policy()
    verdict = decide(policy, first(policy))
    assert verdict.passed.tolist() == [True, True, False]
    assert (verdict.duplicates, verdict.redelivered, verdict.routed) == (1, 0, [])


def test_a_duplicate_is_routed_with_what_it_repeats() -> None:
    verdict = decide(TOPICS, first(TOPICS))
    [routed] = verdict.routed
    assert (routed.topic, routed.record) == ("again", RECORDS[2])
    assert dict(routed.headers) == {
        ORIGINAL_HEADER: b"3:10",
        POSITION_HEADER: b"3:12",
        AGE_HEADER: b"500",
    }


@pytest.mark.parametrize("value", [UNKNOWN_OWNER, UNKNOWN_OWNER + b"\0\0\0\0\x03\xe8"])
def test_what_is_not_known_of_the_original_is_not_made_up(value: bytes) -> None:
    headers = dict(decide(TOPICS, value).routed[0].headers)
    assert headers[ORIGINAL_HEADER] == b"unknown"
    assert headers.get(AGE_HEADER) == (b"500" if len(value) > 8 else None)


def test_another_content_under_the_same_id_is_a_conflict() -> None:
    before = [message(10, b"a", b"another", time_ms=1_000), *RECORDS[1:]]
    verdict = decide(TOPICS, values(TOPICS, before)[0].tobytes())
    assert (verdict.duplicates, verdict.conflicts) == (1, 1)
    assert [routed.topic for routed in verdict.routed] == ["other"]


def test_values_of_before_conflicts_were_looked_for_contradict_nothing() -> None:
    older = Policy(duplicates_topic="again")
    verdict = decide(TOPICS, first(older))
    assert (verdict.conflicts, [routed.topic for routed in verdict.routed]) == (0, ["again"])


@pytest.mark.parametrize(
    ("delivery", "passes"), [(Delivery.EXACTLY_ONCE, False), (Delivery.AT_LEAST_ONCE, True)]
)
def test_a_redelivered_record_is_no_duplicate_of_itself(delivery: Delivery, passes: bool) -> None:
    policy = Policy(delivery=delivery, duplicates_topic="again")
    verdict = decide(policy, values(policy)[1].tobytes())
    assert verdict.passed.tolist() == [True, True, passes]
    assert (verdict.duplicates, verdict.redelivered, verdict.routed) == (0, 1, [])


def test_who_only_observes_passes_duplicates_on_and_routes_none() -> None:
    policy = Policy(mode=Mode.OBSERVE, duplicates_topic="again")
    verdict = decide(policy, first(policy))
    assert verdict.passed.all()
    assert (verdict.duplicates, verdict.routed) == (1, [])


@pytest.mark.parametrize(
    ("after", "forgotten", "bound"),
    [
        (None, 0, 0),
        (None, 700, 700),
        (timedelta(seconds=1), 0, 9_000),
        (timedelta(seconds=1), 9_500, 9_500),
    ],
)
def test_late_is_what_is_older_than_is_remembered_or_than_is_wanted(
    after: timedelta | None, forgotten: int, bound: int
) -> None:
    assert late_before(Policy(late_after=after), forgotten, 10_000) == bound


@pytest.mark.parametrize(
    ("policy", "passes"),
    [
        (Policy(), True),
        (Policy(late_topic="late"), False),
        (Policy(late_topic="late", mode=Mode.OBSERVE), True),
    ],
)
def test_what_is_late_is_counted_and_passes_unless_it_is_routed(
    policy: Policy, passes: bool
) -> None:
    of_first = values(policy)[[0, 0]]
    verdict = make_verdict(policy, RECORDS, ROWS, of_first, {}, late=[1], bound=7_000)
    assert verdict.late == 1
    assert verdict.passed.tolist() == [True, True, passes]
    routed = [(one.topic, dict(one.headers)) for one in verdict.routed]
    headers = {LATE_HEADER: b"7000", POSITION_HEADER: b"3:10"}
    assert routed == ([] if passes else [("late", headers)])
