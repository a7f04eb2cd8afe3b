"""The judge of side topics finds each wrong record there, and none in the right history beside it."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.checker.outside import EventKind, TopicRole, WindowBounds
from tests.support.checker.topic_history import Delivery, Rules
from tests.unit.support.stream_histories import Told, headed

OUT, DUPLICATES = TopicRole.OUTPUT, TopicRole.DUPLICATES
CONFLICTS, LATE = TopicRole.CONFLICTS, TopicRole.LATE
ROUTES = Rules(routes_duplicates=True, routes_conflicts=True, routes_late=True)


def repeated(told: Told, **added: object) -> None:
    """Tell of a record and an equal copy, which is routed with these headers."""
    told.send(b"a", value=b"x", timestamp_ms=100)
    (copy,) = told.send(b"a", value=b"x", timestamp_ms=130)
    first = told.topic(TopicRole.INPUT).records[0].record
    told.commit([first], routed=[(DUPLICATES, headed(copy, **added))])


def test_a_duplicate_is_routed_once() -> None:
    told = Told(rules=ROUTES)
    repeated(told, original="0:0", age_ms=30)
    assert told.kinds() == set()


@pytest.mark.parametrize(
    "added",
    [
        {"original": "0:1", "age_ms": 30},
        {"original": "unknown", "age_ms": 30},
        {"original": "0:0", "age_ms": 31},
        {"original": "0:0"},
        {"age_ms": 30},
    ],
)
def test_wrong_headers_are_misrouted(added: dict[str, object]) -> None:
    told = Told(rules=ROUTES)
    repeated(told, **added)
    assert told.kinds() == {"misrouted"}


def test_a_duplicate_that_is_missing_or_twice_is_misrouted() -> None:
    told = Told(rules=ROUTES)
    first, copy = told.send(b"a", b"a", value=b"x", timestamp_ms=5)
    told.commit([first])
    assert told.kinds() == {"misrouted"}
    routed = headed(copy, original="0:0", age_ms=0)
    told.write(DUPLICATES, routed)
    assert told.kinds() == set()
    told.write(DUPLICATES, routed)
    assert told.kinds() == {"misrouted"}


def test_a_duplicate_that_passed_as_well_is_misrouted() -> None:
    told = Told(rules=replace(ROUTES, table_slots=1))
    first, copy = told.send(b"a", b"a", value=b"x", timestamp_ms=5)
    told.commit([first], 1)
    told.commit([copy], routed=[(DUPLICATES, headed(copy, original="0:0", age_ms=0))])
    assert told.kinds() == {"misrouted"}


def test_a_first_record_that_is_routed_is_lost_and_misrouted() -> None:
    told = Told(rules=ROUTES)
    (a,) = told.send(b"a")
    told.commit([], routed=[(DUPLICATES, headed(a, original="0:0", age_ms=0))])
    assert told.kinds() == {"lost", "misrouted"}


def test_an_altered_record_in_a_side_topic_is_misrouted() -> None:
    told = Told(rules=ROUTES)
    first, copy = told.send(b"a", b"a", value=b"x", timestamp_ms=5)
    routed = replace(headed(copy, original="0:0", age_ms=0), value=b"y")
    told.commit([first], routed=[(DUPLICATES, routed)])
    assert told.kinds() == {"misrouted"}


@pytest.mark.parametrize(("topic", "expected"), [(CONFLICTS, set()), (DUPLICATES, {"misrouted"})])
def test_a_conflict_belongs_into_its_own_topic(topic: TopicRole, expected: set[str]) -> None:
    told = Told(rules=ROUTES)
    first, other = told.send(b"a", b"a", timestamp_ms=5)
    told.commit([first], routed=[(topic, headed(other, original="0:0", age_ms=0))])
    assert told.kinds() == expected


def test_conflicts_are_duplicates_where_they_are_not_routed() -> None:
    told = Told(rules=Rules(routes_duplicates=True))
    first, other = told.send(b"a", b"a", timestamp_ms=5)
    told.commit([first], routed=[(DUPLICATES, headed(other, original="0:0", age_ms=0))])
    assert told.kinds() == set()


@pytest.mark.parametrize(
    ("waited_ms", "deleted", "expected"),
    [(20_000, True, set()), (20_000, False, {"misrouted"}), (0, True, {"misrouted"})],
)
def test_a_repeat_that_may_have_passed_into_a_deleted_topic_need_not_be_routed(
    waited_ms: int, deleted: bool, expected: set[str]
) -> None:
    bounds = WindowBounds(keep_ms=10_000, backlog_grace_ms=1_000_000)
    told = Told(rules=replace(ROUTES, bounds=bounds))
    told.commit(told.send(b"a", value=b"x", timestamp_ms=1))
    told.wait(waited_ms)
    told.send(b"a", value=b"x", timestamp_ms=2)
    if deleted:
        told.create(OUT)
    told.commit([])
    assert told.kinds() == expected


def test_the_original_is_that_of_the_newest_life() -> None:
    bounds = WindowBounds(keep_ms=10_000, backlog_grace_ms=1_000_000)
    told = Told(rules=replace(ROUTES, bounds=bounds))
    told.commit(told.send(b"a", value=b"x", timestamp_ms=1))
    told.wait(20_000)
    told.commit(told.send(b"a", value=b"x", timestamp_ms=2))
    (copy,) = told.send(b"a", value=b"x", timestamp_ms=3)
    told.commit([], routed=[(DUPLICATES, headed(copy, original="0:1", age_ms=1))])
    assert told.kinds() == set()
    told.topics[-1].records[0] = replace(
        told.topics[-1].records[0],
        record=headed(copy, original="0:0", age_ms=2),
    )
    assert told.kinds() == {"misrouted"}


@pytest.mark.parametrize(("original", "expected"), [("unknown", set()), ("0:0", {"misrouted"})])
def test_an_original_of_deleted_input_is_unknown(original: str, expected: set[str]) -> None:
    told = Told(rules=ROUTES)
    told.commit(told.send(b"a", value=b"x", timestamp_ms=1))
    told.create(TopicRole.INPUT)
    told.start()
    b, copy = told.send(b"b", b"a", value=b"x", timestamp_ms=2)
    told.commit([b], routed=[(DUPLICATES, headed(copy, original=original, age_ms=1))])
    assert told.kinds() == expected


def test_a_repeat_at_an_equal_offset_of_new_input_is_routed() -> None:
    told = Told(rules=ROUTES)
    told.commit(told.send(b"a", value=b"x", timestamp_ms=1))
    told.create(TopicRole.INPUT)
    told.start()
    (copy,) = told.send(b"a", value=b"x", timestamp_ms=2)
    told.commit([])
    assert told.kinds() == {"misrouted"}
    told.write(DUPLICATES, headed(copy, original="unknown", age_ms=1))
    assert told.kinds() == set()


def test_a_commit_that_outlives_its_input_topic_routes_the_records_of_that() -> None:
    told = Told(rules=ROUTES)
    first, copy = told.send(b"a", b"a", value=b"x", timestamp_ms=1)
    told.create(TopicRole.INPUT)
    told.commit([first], 2, routed=[(DUPLICATES, headed(copy, original="0:0", age_ms=0))])
    told.start()
    told.commit([], 0)  # the offset does not count for the new topic
    assert told.kinds() == set()


def test_a_record_that_expired_before_the_session_is_not_the_one_that_passed() -> None:
    told = Told(rules=ROUTES)
    told.commit(told.send(b"z", value=b"z"))
    _, second = told.send(b"a", b"a", value=b"x", timestamp_ms=1)
    told.retain(TopicRole.INPUT, 2)
    told.start()
    told.commit([second], expired_offsets=1, degraded={"InputExpired": 1})
    assert told.kinds() == set()


@pytest.mark.parametrize("original", ["0:0", "0:1", "0:2", "unknown"])
@pytest.mark.parametrize("retained", [0, 1])
def test_either_of_two_equal_records_passed_if_retention_deletes_the_first_meanwhile(
    original: str, retained: int
) -> None:
    told = Told(rules=ROUTES)
    _, second = told.send(b"a", b"a", value=b"x", timestamp_ms=1)
    told.retain(TopicRole.INPUT, retained)
    said = {"expired_offsets": retained, "degraded": {"InputExpired": 1} if retained else {}}
    told.commit([second], 2, **said)  # type: ignore[arg-type] # by name
    (third,) = told.send(b"a", value=b"x", timestamp_ms=1)
    routed = headed(third, original=original, age_ms=0)
    told.commit([], 3, routed=[(DUPLICATES, routed)], **said)  # type: ignore[arg-type] # by name
    right = retained and original in {"0:0", "0:1"}
    assert told.kinds() == (set() if right else {"misrouted"})


@pytest.mark.parametrize(("original", "expected"), [("0:2", set()), ("0:1", {"misrouted"})])
def test_a_record_that_was_read_before_the_session_is_not_the_one_that_passed(
    original: str, expected: set[str]
) -> None:
    """Nothing but the committed offset tells equal records apart without transactions."""
    told = Told(rules=replace(ROUTES, delivery=Delivery.AT_LEAST_ONCE))
    first, second, third, fourth = told.send(b"a", b"a", b"a", b"a", value=b"x", timestamp_ms=1)
    routed = [headed(second, original="0:0", age_ms=0), headed(fourth, original=original, age_ms=0)]
    told.commit([first], 2, routed=[(DUPLICATES, routed[0])])
    told.create(OUT)
    told.start()
    told.say(catch_up="OutputTopicReplaced")
    told.commit([third], 4, routed=[(DUPLICATES, routed[1])], catch_up="OutputTopicReplaced")
    told.progress = [replace(each, transaction=None) for each in told.progress]
    for topic in told.topics:
        topic.records = [replace(each, transaction=None) for each in topic.records]
    assert told.kinds() == expected


@pytest.mark.parametrize(("original", "expected"), [("0:0", set()), ("0:1", {"misrouted"})])
def test_the_original_is_none_that_passed_only_when_the_input_was_read_again(
    original: str, expected: set[str]
) -> None:
    told = Told(rules=replace(ROUTES, bounds=WindowBounds(keep_ms=1, backlog_grace_ms=0)))
    first, second, third = told.send(b"a", b"a", b"a", value=b"x", timestamp_ms=1)
    routed = [
        (DUPLICATES, headed(second, original="0:0", age_ms=0)),
        (DUPLICATES, headed(third, original=original, age_ms=0)),
    ]
    told.commit([first], 3, routed=routed)
    told.happen(EventKind.WORKER_ENDED, process="w1")
    told.happen(EventKind.OFFSETS_LOST, partition=None)
    told.start("w2")
    told.commit([], 1)
    told.wait(10_000)
    again = headed(third, original="0:1", age_ms=0)
    told.commit([second], 3, routed=[(DUPLICATES, again)])
    assert told.kinds() == expected


def test_an_original_may_be_unknown_after_a_start_without_transactions_only() -> None:
    for delivery, expected in (
        (Delivery.AT_LEAST_ONCE, set[str]()),
        (Delivery.EXACTLY_ONCE, {"misrouted"}),
    ):
        told = Told(rules=replace(ROUTES, delivery=delivery))
        told.commit(told.send(b"a", value=b"x", timestamp_ms=1))
        told.start()
        (copy,) = told.send(b"a", value=b"x", timestamp_ms=2)
        told.commit([], routed=[(DUPLICATES, headed(copy, original="unknown", age_ms=1))])
        assert told.kinds() == expected


@pytest.mark.parametrize("entry", [True, False])
@pytest.mark.parametrize(
    "reason",
    [
        "broker away",
        "frozen",
        "foreign records",
        "foreign records, visible first",
        "foreign records, aborted",
        "none",
    ],
)
def test_an_original_may_be_unknown_after_a_start_if_its_transaction_has_no_entry(
    entry: bool, reason: str
) -> None:
    """A slow broker, or others that write among its records, are why it may have none."""
    told = Told(rules=ROUTES)
    if reason in set(EventKind):
        told.happen(EventKind(reason))
    a, b = told.send(b"a", b"b", value=b"x", timestamp_ms=1)
    told.commit([a])
    if reason.startswith("foreign records"):
        told.write(OUT, replace(a, key=b"f"), "foreign-1")
    told.write(OUT, b)
    if reason.endswith("visible first"):
        seen = told.topic(OUT).records
        seen.insert(0, seen.pop(1))
    if reason.endswith("aborted"):
        del told.topic(OUT).records[1]
    if entry:
        told.write(TopicRole.OWNERS, replace(a, key=b"output"))
    told.wait(1000)
    (copy,) = told.send(b"a", value=b"x", timestamp_ms=2)
    unknown = headed(copy, original="unknown", age_ms=1)
    told.start()
    told.commit([], routed=[(DUPLICATES, unknown)])
    assert told.kinds() == ({"misrouted"} if entry or reason == "none" else set())


def test_an_original_is_known_until_a_start_though_its_transaction_has_no_entry() -> None:
    told = Told(rules=ROUTES)
    told.happen(EventKind.BROKER_AWAY)
    told.commit(told.send(b"a", value=b"x", timestamp_ms=1))
    (copy,) = told.send(b"a", value=b"x", timestamp_ms=2)
    told.commit([], routed=[(DUPLICATES, headed(copy, original="unknown", age_ms=1))])
    assert told.kinds() == {"misrouted"}


def test_the_original_of_a_foreign_record_is_unknown() -> None:
    told = Told(rules=ROUTES)
    (b,) = told.send(b"b", timestamp_ms=1)
    told.commit([b])
    told.write(OUT, replace(b, key=b"f", value=b"x"), "foreign-1")
    told.start()
    told.say()
    (copy,) = told.send(b"f", value=b"x", timestamp_ms=2)
    told.commit([], routed=[(DUPLICATES, headed(copy, original="unknown", age_ms=1))])
    assert told.kinds() == set()


def test_a_late_record_is_routed_once_and_not_lost() -> None:
    told = Told(rules=ROUTES)
    (old,) = told.send(b"a", timestamp_ms=5)
    told.commit([], routed=[(LATE, headed(old, late=6))])
    assert told.kinds() == set()
    told.write(LATE, headed(old, late=6))
    assert told.kinds() == {"misrouted"}


@pytest.mark.parametrize(
    ("delivery", "volume_lost", "expected"),
    [
        (Delivery.AT_LEAST_ONCE, True, set()),
        (Delivery.AT_LEAST_ONCE, False, {"misrouted"}),
        (Delivery.EXACTLY_ONCE, True, {"misrouted"}),
    ],
)
def test_a_late_record_may_pass_too_if_the_store_that_called_it_late_was_lost(
    delivery: Delivery, volume_lost: bool, expected: set[str]
) -> None:
    """Without transactions, before its offset was committed."""
    told = Told(rules=replace(ROUTES, delivery=delivery))
    (old,) = told.send(b"a", timestamp_ms=5)
    told.commit([], 0, routed=[(LATE, headed(old, late=6))])
    if volume_lost:
        told.happen(EventKind.VOLUME_LOST)
    told.start("w2")
    told.say(catch_up="NewStore")
    told.commit([old])
    assert told.kinds() == expected


@pytest.mark.parametrize("bound", [5, "soon"])
def test_a_record_that_is_not_before_the_bound_is_misrouted(bound: object) -> None:
    told = Told(rules=ROUTES)
    (old,) = told.send(b"a", timestamp_ms=5)
    told.commit([], routed=[(LATE, headed(old, late=bound))])
    assert told.kinds() == {"misrouted"}


def test_a_late_record_whose_id_is_known_is_misrouted() -> None:
    told = Told(rules=ROUTES)
    told.commit(told.send(b"a", timestamp_ms=9))
    (old,) = told.send(b"a", timestamp_ms=5)
    told.commit([], routed=[(LATE, headed(old, late=6))])
    assert told.kinds() == {"misrouted"}


@pytest.mark.parametrize(
    ("offsets_lost", "output_lost", "expected"),
    [(True, True, set()), (True, False, {"misrouted"}), (False, True, {"misrouted"})],
)
def test_a_record_that_is_read_again_is_late_if_the_output_has_lost_its_id(
    offsets_lost: bool, output_lost: bool, expected: set[str]
) -> None:
    """When it was read first, it was a duplicate."""
    told = Told(rules=Rules(routes_late=True))
    told.commit(told.send(b"a", timestamp_ms=9))
    (old,) = told.send(b"a", timestamp_ms=5)
    told.commit([])
    told.happen(EventKind.WORKER_ENDED)
    if offsets_lost:
        told.happen(EventKind.OFFSETS_LOST, partition=None)
    if output_lost:
        told.retain(OUT, 1)
    told.start("w2")
    told.say(catch_up="TailRetainedAway" if output_lost else "Tail", truncated=output_lost)
    told.commit([], 2, routed=[(LATE, headed(old, late=6))], truncated=output_lost)
    assert told.kinds() == expected


def test_a_late_record_where_late_ones_pass_is_misrouted() -> None:
    told = Told(rules=Rules(routes_duplicates=True))
    (old,) = told.send(b"a", timestamp_ms=5)
    told.commit([], routed=[(LATE, headed(old, late=6))])
    assert told.kinds() == {"misrouted"}


@pytest.mark.parametrize(
    ("delivery", "reason", "offset", "expected"),
    [
        (Delivery.AT_LEAST_ONCE, "OutputTopicReplaced", 1, set()),
        (Delivery.AT_LEAST_ONCE, "TailRetainedAway", 1, set()),
        (Delivery.AT_LEAST_ONCE, "OutputTopicReplaced", 2, {"misrouted"}),
        (Delivery.AT_LEAST_ONCE, "Tail", 1, {"duplicated", "misrouted"}),
        (Delivery.EXACTLY_ONCE, "OutputTopicReplaced", 1, {"misrouted"}),
    ],
)
def test_a_routed_record_passes_if_its_offset_was_not_committed_and_the_output_lost_the_original(
    delivery: Delivery, reason: str, offset: int, expected: set[str]
) -> None:
    told = Told(rules=replace(ROUTES, delivery=delivery))
    first, second = told.send(b"a", b"a", value=b"x", timestamp_ms=1)
    told.commit([first], offset, routed=[(DUPLICATES, headed(second, original="0:0", age_ms=0))])
    if reason == "OutputTopicReplaced":
        told.create(OUT)
    elif reason == "TailRetainedAway":
        told.retain(OUT, 1)
    told.start("w2")
    truncated = reason != "Tail"
    told.say(catch_up=reason, truncated=truncated)
    told.commit([second], 2, catch_up=reason, truncated=truncated)
    assert told.kinds() == expected


AT_RANDOM: dict[str, Any] = {"table_slots": 1}
OF_ONE_ID: dict[str, Any] = {"bounds": WindowBounds(keep_ms=10**9, backlog_grace_ms=0, keep_ids=1)}


@pytest.mark.parametrize(
    ("delivery", "window", "offset", "expected"),
    [
        (Delivery.AT_LEAST_ONCE, AT_RANDOM, 2, set()),
        (Delivery.AT_LEAST_ONCE, OF_ONE_ID, 2, set()),
        (Delivery.AT_LEAST_ONCE, OF_ONE_ID, 3, {"misrouted"}),
        (Delivery.AT_LEAST_ONCE, {}, 2, {"duplicated", "misrouted"}),
        (Delivery.EXACTLY_ONCE, OF_ONE_ID, 2, {"misrouted"}),
    ],
)
def test_a_routed_record_passes_if_its_offset_was_not_committed_and_its_id_may_be_forgotten(
    delivery: Delivery, window: dict[str, Any], offset: int, expected: set[str]
) -> None:
    told = Told(rules=replace(ROUTES, delivery=delivery, **window))
    first, other, second = told.send(b"a", b"b", b"a", value=b"x", timestamp_ms=1)
    routed = [(DUPLICATES, headed(second, original="0:0", age_ms=0))]
    told.commit([first, other], offset, routed=routed)
    told.start("w2")
    told.commit([second], 3)
    assert told.kinds() == expected


@pytest.mark.parametrize(
    ("original", "deleted", "expected"),
    [("0:2", True, set()), ("0:1", True, {"misrouted"}), ("0:2", False, {"misrouted"})],
)
def test_the_original_of_a_routed_record_may_have_gone_with_the_output_topic(
    original: str, deleted: bool, expected: set[str]
) -> None:
    """It was in the same transaction; whether its id was known before is not certain."""
    told = Told(rules=replace(ROUTES, **OF_ONE_ID))
    told.commit(told.send(b"a", b"b", value=b"y", timestamp_ms=1))
    _, second = told.send(b"a", b"a", value=b"x", timestamp_ms=1)
    if deleted:
        told.create(OUT)
    told.commit([], routed=[(DUPLICATES, headed(second, original=original, age_ms=0))])
    told.start("w2")
    told.say(catch_up="OutputTopicReplaced" if deleted else "Tail", truncated=deleted)
    assert told.kinds() == expected


KILLED_BEFORE_ITS_COMMIT = pytest.mark.parametrize(
    ("delivery", "restarts", "offset", "expected"),
    [
        (Delivery.AT_LEAST_ONCE, True, 0, set()),
        (Delivery.AT_LEAST_ONCE, True, 1, {"lost", "misrouted"}),
        (Delivery.AT_LEAST_ONCE, False, 0, {"lost", "misrouted"}),
        (Delivery.EXACTLY_ONCE, True, 0, {"lost", "misrouted"}),
    ],
)


@KILLED_BEFORE_ITS_COMMIT
def test_without_transactions_a_killed_worker_may_have_sent_the_later_record_only(
    delivery: Delivery, restarts: bool, offset: int, expected: set[str]
) -> None:
    """The first one was late, say, and what was routed did not arrive."""
    told = Told(rules=replace(ROUTES, delivery=delivery))
    (first,) = told.send(b"a", value=b"x", timestamp_ms=1)
    (second,) = told.send(b"a", value=b"x", timestamp_ms=61)
    told.commit([second], offset)
    if restarts:
        told.start("w2")
    told.commit([], 2, routed=[(DUPLICATES, headed(first, original="unknown", age_ms=-60))])
    assert told.kinds() == expected


@pytest.mark.parametrize(("original", "expected"), [("0:0", set()), ("0:1", {"misrouted"})])
def test_without_transactions_the_original_may_arrive_after_its_repeat(
    original: str, expected: set[str]
) -> None:
    """The output's leader was away, and the worker was killed: the next one sends the original."""
    told = Told(rules=replace(ROUTES, delivery=Delivery.AT_LEAST_ONCE))
    first, second = told.send(b"a", b"a", value=b"x", timestamp_ms=1)
    told.write(DUPLICATES, headed(second, original=original, age_ms=0), told.session)
    told.start("w2")
    told.commit([first], routed=[(DUPLICATES, headed(second, original="0:0", age_ms=0))])
    assert told.kinds() == expected


@pytest.mark.parametrize(
    ("delivery", "deleted", "offset", "expected"),
    [
        (Delivery.AT_LEAST_ONCE, True, 0, set()),
        (Delivery.AT_LEAST_ONCE, True, 2, {"lost", "misrouted"}),
        (Delivery.AT_LEAST_ONCE, False, 0, {"lost", "misrouted"}),
        (Delivery.EXACTLY_ONCE, True, 0, {"misrouted"}),
    ],
)
def test_without_transactions_the_original_may_go_unsent_with_its_input_topic(
    delivery: Delivery, deleted: bool, offset: int, expected: set[str]
) -> None:
    told = Told(rules=replace(ROUTES, delivery=delivery))
    _, second = told.send(b"a", b"a", value=b"x", timestamp_ms=1)
    told.commit([], offset)
    told.write(DUPLICATES, headed(second, original="0:0", age_ms=0))
    if deleted:
        told.create(TopicRole.INPUT)
    told.start("w2")
    told.commit([], 0)
    assert told.kinds() == expected


@KILLED_BEFORE_ITS_COMMIT
def test_without_transactions_an_earlier_record_may_be_taken_for_the_one_that_was_sent(
    delivery: Delivery, restarts: bool, offset: int, expected: set[str]
) -> None:
    """The output has an id once, of the later record: the first record is dropped, and that one is its repeat."""
    told = Told(rules=replace(ROUTES, delivery=delivery))
    told.send(b"a", value=b"x", timestamp_ms=1)
    (second,) = told.send(b"a", value=b"x", timestamp_ms=61)
    told.commit([second], offset)
    if restarts:
        told.start("w2")
    told.commit([], 2, routed=[(DUPLICATES, headed(second, original="unknown", age_ms=0))])
    assert told.kinds() == expected


@pytest.mark.parametrize(("original", "expected"), [("0:0", set()), ("0:1", {"misrouted"})])
def test_what_a_start_commits_for_a_deleted_input_topic_takes_nothing_back(
    original: str, expected: set[str]
) -> None:
    """It has found the topic before its deletion, and its store is older than the group's offset was."""
    told = Told(rules=ROUTES)
    first, second = told.send(b"a", b"a", value=b"x", timestamp_ms=1)
    told.commit([first], routed=[(DUPLICATES, headed(second, original=original, age_ms=0))])
    told.start("w2")
    told.create(TopicRole.INPUT)
    told.commit([], 1, input_topic=0)
    told.create(OUT)
    told.start("w2")
    told.commit([], 0, catch_up="OutputTopicReplaced", truncated=True)
    assert told.kinds() == expected


def test_without_transactions_a_routed_record_may_come_again_if_its_offset_was_not_committed() -> (
    None
):
    told = Told(rules=replace(ROUTES, delivery=Delivery.AT_LEAST_ONCE))
    told.commit(told.send(b"a", value=b"x", timestamp_ms=1))
    (copy,) = told.send(b"a", value=b"x", timestamp_ms=2)
    routed = headed(copy, original="0:0", age_ms=1)
    told.write(DUPLICATES, routed, told.session)
    told.start()
    told.wait(1000)
    told.write(DUPLICATES, routed, told.session)
    told.commit([])
    assert told.kinds() == set()
    told.start()
    told.wait(1000)
    told.write(DUPLICATES, routed, told.session)
    assert told.kinds() == {"misrouted"}


@pytest.mark.parametrize(
    ("delivery", "offset", "retained", "behind", "expected"),
    [
        (Delivery.AT_LEAST_ONCE, 0, 1, b"", set()),
        (Delivery.AT_LEAST_ONCE, 1, 1, b"", {"misrouted"}),  # its offset was committed
        (Delivery.AT_LEAST_ONCE, 0, 0, b"", {"misrouted"}),  # it did not expire
        (Delivery.AT_LEAST_ONCE, 0, 1, b"n", {"misrouted"}),  # a new message
        (
            Delivery.AT_LEAST_ONCE,
            0,
            1,
            b"a",
            {"misrouted"},
        ),  # another repeat, which was taken for it
        (Delivery.EXACTLY_ONCE, 0, 1, b"", {"misrouted"}),
    ],
)
def test_without_transactions_a_repeat_may_be_taken_for_what_was_sent_and_expired(
    delivery: Delivery, offset: int, retained: int, behind: bytes, expected: set[str]
) -> None:
    told = Told(rules=replace(ROUTES, delivery=delivery))
    told.commit(told.send(b"a"), offset)
    before = told.send(behind) if behind else []
    told.send(b"a")
    told.retain(TopicRole.INPUT, retained)
    told.start("w2")
    told.commit([each for each in before if behind == b"n"])
    assert told.kinds() == expected


@pytest.mark.parametrize(("copies", "expected"), [(2, set()), (1, {"misrouted"})])
def test_a_duplicate_that_a_router_has_written_twice_is_routed_twice(
    copies: int, expected: set[str]
) -> None:
    """Without transactions: both have one position, that of the record which the producer wrote."""
    told = Told(rules=replace(ROUTES, delivery=Delivery.AT_LEAST_ONCE), routers=True)
    (first,) = told.send(b"a", value=b"x", timestamp_ms=1)
    told.commit([first])
    again, _ = told.send(b"a", b"a", value=b"x", timestamp_ms=1)
    routed = headed(again, original="orders:0:7", age_ms=0)
    position = ("dedupe-position", b"orders:0:8")
    headers = tuple(position if each[0] == position[0] else each for each in routed.headers)
    told.commit([], routed=[(DUPLICATES, replace(routed, headers=headers))] * copies)
    records = told.topic(TopicRole.INPUT).records
    origins = ("orders:0:7", "orders:0:8", "orders:0:8")
    records[:] = [replace(each, origin=at) for each, at in zip(records, origins, strict=True)]
    assert told.kinds() == expected


@pytest.mark.parametrize(
    ("origin", "expected"), [("orders:0:7", set()), ("orders:0:8", {"misrouted"})]
)
def test_a_repeat_at_the_place_of_the_lost_record_that_it_repeats_is_not_routed(
    origin: str, expected: set[str]
) -> None:
    told = Told(rules=ROUTES, routers=True)
    first, _ = told.send(b"a", b"a")
    told.commit([first], 2)
    records = told.topic(TopicRole.INPUT).records
    origins = ("orders:0:7", origin)
    records[:] = [replace(each, origin=at) for each, at in zip(records, origins, strict=True)]
    assert told.kinds() == expected
