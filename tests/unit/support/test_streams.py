"""The judge of whole streams finds each kind of defect, and none in the right history beside it."""

from dataclasses import replace

import pytest

from tests.support.checker.outside import EventKind, OutsideEvent, TopicRole, WindowBounds
from tests.support.checker.topic_history import Delivery, Rules
from tests.unit.support.stream_histories import Told, Topic

HOUR = 3_600_000
OUT = TopicRole.OUTPUT
WINDOW = Rules(bounds=WindowBounds(keep_ms=HOUR, backlog_grace_ms=60_000))
AT_LEAST_ONCE = Rules(delivery=Delivery.AT_LEAST_ONCE)


# -- one incarnation, no window ----------------------------------------------------------------------


def test_the_first_of_each_id_passes_and_repeats_do_not() -> None:
    told = Told()
    a, b, _, without_id = told.send(b"a", b"b", b"a", None)
    told.commit([a, b, without_id])
    verdict = told.verdict()
    verdict.assert_exactly_once(4)
    assert (verdict.expected, verdict.found) == (3, 3)


def test_a_missing_record_is_lost() -> None:
    told = Told()
    a, _ = told.send(b"a", b"b")
    told.commit([a])
    assert told.kinds() == {"lost"}


def test_a_missing_record_without_id_is_lost() -> None:
    told = Told()
    told.send(None)
    told.commit([])
    assert told.kinds() == {"lost"}


def test_a_record_that_was_not_read_is_lost_only_after_a_drain() -> None:
    told = Told()
    told.send(b"a")
    assert told.kinds() == {"lost"}
    told.rules = Rules(drained=False)
    assert told.kinds() == set()


def test_a_repeat_that_passes_is_duplicated() -> None:
    told = Told()
    told.commit(told.send(b"a"))
    told.commit(told.send(b"a"))
    assert told.kinds() == {"duplicated"}


def test_a_record_that_passes_twice_is_duplicated() -> None:
    told = Told()
    sent = told.send(b"a", None)
    told.commit(sent)
    told.commit(sent)
    assert len(told.verdict().duplicated) == 2
    assert told.kinds() == {"duplicated"}


def test_observed_repeats_pass_and_must_pass() -> None:
    told = Told(rules=Rules(observe=True))
    told.commit(told.send(b"a", b"a"))
    assert told.kinds() == set()
    told.send(b"a")
    told.commit([])
    assert told.kinds() == {"lost"}


def test_a_changed_record_is_altered() -> None:
    told = Told()
    (a,) = told.send(b"a")
    told.commit([replace(a, value=b"other")])
    assert told.kinds() == {"altered"}


def test_records_in_another_order_are_reordered() -> None:
    told = Told()
    a, b = told.send(b"a", b"b")
    told.commit([b, a])
    assert told.kinds() == {"reordered"}


def test_a_record_of_nobody_is_foreign_unless_a_foreign_writer_wrote_it() -> None:
    told = Told()
    (a,) = told.send(b"a")
    told.commit([a])
    told.write(OUT, replace(a, key=b"z", value=b"z"), "foreign-1")
    assert told.kinds() == set()
    told.write(OUT, replace(a, key=b"y", value=b"y"))
    assert told.kinds() == {"foreign"}


def test_a_record_beyond_the_committed_offset_is_ahead() -> None:
    told = Told(rules=Rules(drained=False))
    sent = told.send(b"a", b"b")
    told.commit(sent, 2)
    assert told.kinds() == set()
    told = Told(rules=Rules(drained=False))
    told.commit(told.send(b"a", b"b"), 1)
    assert told.kinds() == {"ahead"}


# -- all partitions together -------------------------------------------------------------------------


def test_copies_in_two_partitions_both_pass() -> None:
    told = Told()
    told.commit(told.send(b"a"))
    told.commit(told.send(b"a", partition=1), partition=1)
    assert told.kinds() == set()


def test_a_record_in_another_partition_is_misplaced_and_lost() -> None:
    told = Told()
    (a,) = told.send(b"a")
    told.commit([replace(a, partition=1)])
    assert told.kinds() == {"misplaced", "lost"}


# -- the window --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waited_ms", "expected"), [(HOUR - 10_000, {"duplicated"}), (HOUR + 1, set())]
)
def test_a_repeat_passes_only_after_the_window(waited_ms: int, expected: set[str]) -> None:
    told = Told(rules=WINDOW)
    told.commit(told.send(b"a"))
    told.wait(waited_ms)
    told.commit(told.send(b"a"))
    assert told.kinds() == expected


def test_a_repeat_after_the_window_may_be_dropped() -> None:
    told = Told(rules=WINDOW)
    told.commit(told.send(b"a"))
    told.wait(2 * HOUR)
    told.send(b"a")
    told.commit([])
    assert told.kinds() == set()


def test_a_repeat_after_the_window_begins_a_new_life() -> None:
    told = Told(rules=WINDOW)
    told.commit(told.send(b"a"))
    told.wait(2 * HOUR)
    told.commit(told.send(b"a"))
    told.commit(told.send(b"a"))
    assert told.kinds() == {"duplicated"}


def test_a_dropped_repeat_does_not_make_the_window_longer() -> None:
    told = Told(rules=WINDOW)
    told.commit(told.send(b"a"))
    told.wait(HOUR // 2)
    told.send(b"a")
    told.commit([])
    told.wait(HOUR // 2)
    told.commit(told.send(b"a"))
    assert told.kinds() == set()


def test_ids_do_not_age_while_no_worker_runs() -> None:
    told = Told(rules=WINDOW)
    told.commit(told.send(b"a"))
    told.happen(EventKind.WORKER_ENDED, process="w1")
    told.wait(2 * HOUR)
    told.start()
    told.commit(told.send(b"a"))
    assert told.kinds() == {"duplicated"}


def test_ids_do_not_age_while_input_waits() -> None:
    told = Told(rules=WINDOW)
    told.commit(told.send(b"a"))
    sent = told.send(b"b", b"a")
    told.wait(2 * HOUR)
    told.commit(sent)
    assert told.kinds() == {"duplicated"}


@pytest.mark.parametrize(("deleted", "expected"), [(True, set()), (False, {"duplicated"})])
def test_input_that_was_deleted_unread_waits_no_longer(deleted: bool, expected: set[str]) -> None:
    told = Told(rules=WINDOW)
    told.send(b"b", b"c")
    if deleted:
        told.create(TopicRole.INPUT)
    told.start()
    told.commit(told.send(b"a"), 1)
    told.wait(2 * HOUR)
    told.commit(told.send(b"a"), 2)
    assert told.kinds() >= expected
    assert bool(told.kinds()) is bool(expected)


def test_ids_age_while_another_partition_waits() -> None:
    told = Told(rules=WINDOW)
    told.commit(told.send(b"a"))
    waiting = told.send(b"b", partition=1)
    told.wait(2 * HOUR)
    told.commit(told.send(b"a"))
    told.commit(waiting, partition=1)
    assert told.kinds() == set()


@pytest.mark.parametrize(("keep_ids", "expected"), [(4, {"duplicated"}), (3, set())])
def test_a_repeat_passes_after_more_ids_than_fit(keep_ids: int, expected: set[str]) -> None:
    told = Told(rules=Rules(bounds=WindowBounds(keep_ms=HOUR, keep_ids=keep_ids)))
    told.commit(told.send(b"a"))
    told.commit(told.send(b"b", b"c"))
    told.commit(told.send(b"a"))
    assert told.kinds() == expected


TINY = Rules(bounds=WindowBounds(keep_ms=HOUR, keep_ids=0))


@pytest.mark.parametrize("delivery", Delivery)
def test_a_repeat_within_a_transaction_is_judged_however_small_the_window_is(
    delivery: Delivery,
) -> None:
    told = Told(rules=replace(TINY, delivery=delivery))
    told.commit([*told.send(b"a"), *told.send(b"b"), *told.send(b"a")])
    if delivery is Delivery.AT_LEAST_ONCE:
        # What was sent is committed afterwards.
        told.progress[-1] = replace(told.progress[-1], time_ms=told.now_ms + 1, transaction=None)
    assert told.kinds() == {"duplicated"}
    told = Told(rules=replace(TINY, delivery=delivery))
    told.commit(told.send(b"a"))
    told.commit(told.send(b"a"))
    assert told.kinds() == set()
    assert told.verdict().repeats.unjudged == 1


@pytest.mark.parametrize(("all_ids", "expected"), [(3, {"duplicated"}), (2, set())])
def test_a_window_that_was_never_full_forgets_nothing(all_ids: int, expected: set[str]) -> None:
    told = Told(rules=Rules(bounds=WindowBounds(keep_ms=HOUR, keep_ids=0, all_ids=all_ids)))
    told.commit(told.send(b"a", b"b", b"c"))
    told.commit(told.send(b"a"))
    assert told.kinds() == expected


@pytest.mark.parametrize(("starts", "expected"), [(False, {"duplicated"}), (True, set())])
def test_a_start_may_take_more_ids_into_a_generation(starts: bool, expected: set[str]) -> None:
    told = Told(rules=Rules(bounds=WindowBounds(keep_ms=HOUR, keep_ids=4, learnt_at_once=2)))
    told.say()
    told.commit(told.send(b"a", b"b"))
    if starts:
        told.start()
    told.commit(told.send(b"a"))
    assert told.kinds() == expected


@pytest.mark.parametrize(("foreign", "expected"), [(0, {"duplicated"}), (1, set())])
def test_a_running_worker_may_take_in_foreign_ids_after_those_of_its_own(
    foreign: int, expected: set[str]
) -> None:
    told = Told(rules=Rules(bounds=WindowBounds(keep_ms=HOUR, keep_ids=3)))
    told.say()
    (a,) = told.send(b"a")
    for _ in range(foreign):
        told.write(OUT, replace(a, key=b"f", value=b"f"), "foreign-1")
    told.commit([a, *told.send(b"b")])
    told.commit(told.send(b"a"))
    assert told.kinds() == expected


def test_new_bounds_hold_from_their_change_on() -> None:
    told = Told(rules=WINDOW)
    told.commit(told.send(b"a"))
    told.happen(EventKind.BOUNDS_CHANGED, bounds=WindowBounds(keep_ms=10_000))
    told.wait(20_000)
    told.commit(told.send(b"a"))
    assert told.kinds() == set()
    told.commit(told.send(b"a"))
    assert told.kinds() == {"duplicated"}


def test_a_table_of_fixed_size_lets_repeats_pass_and_no_new_record_be_dropped() -> None:
    told = Told(rules=Rules(table_slots=1))
    told.commit(told.send(b"a"))
    told.commit(told.send(b"a"))
    assert told.kinds() == set()
    told.send(b"b")
    told.commit([])
    assert told.kinds() == {"lost"}


@pytest.mark.parametrize(("slots", "expected"), [(10, set()), (1_000, {"duplicated"})])
def test_a_table_of_fixed_size_lets_as_many_repeats_pass_as_its_formula_says(
    slots: int, expected: set[str]
) -> None:
    """Of 20 repeats after 20 ids and more: of 10 slots 18 or more, of 1,000 slots none or one."""
    told = Told(rules=Rules(table_slots=slots))
    ids = [b"id-%d" % number for number in range(20)]
    told.commit(told.send(*ids))
    told.commit(told.send(*ids[:10]))
    told.commit(told.send(*ids[10:]))
    assert told.kinds() == expected
    repeats = told.verdict().repeats
    assert (repeats.all, repeats.of_tables, repeats.passed, repeats.unjudged) == (20, 20, 20, 0)


def test_a_repeat_within_a_transaction_passes_no_table() -> None:
    told = Told(rules=Rules(table_slots=1))
    told.commit(told.send(b"a", b"a"))
    assert told.kinds() == {"duplicated"}


def test_the_next_copy_of_a_forgotten_id_must_pass() -> None:
    told = Told()
    told.commit(told.send(b"a"))
    told.happen(EventKind.FORGOTTEN, ids=frozenset({b"a"}))
    told.commit(told.send(b"a"))
    assert told.kinds() == set()
    told = Told()
    told.commit(told.send(b"a"))
    told.happen(EventKind.FORGOTTEN, ids=frozenset({b"a"}))
    told.send(b"a")
    told.commit([])
    assert told.kinds() == {"lost"}


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("of_the_first", [True, False])
def test_a_record_of_the_moment_of_a_forget_may_be_before_or_after_it(
    passes: bool, of_the_first: bool
) -> None:
    told = Told()
    told.commit(told.send(b"a"))
    first_ms = told.progress[-1].time_ms
    again = told.send(b"a")
    told.commit(again if passes else [])
    moment = first_ms if of_the_first else told.progress[-1].time_ms
    told.happen(EventKind.FORGOTTEN, ids=frozenset({b"a"}))
    told.events[-1] = replace(told.events[-1], time_ms=moment)
    assert told.kinds() == set()


@pytest.mark.parametrize(("forgets", "expected"), [("w1", set()), ("w2", {"lost"})])
def test_a_worker_beside_the_one_that_forgets_an_id_may_know_it(
    forgets: str, expected: set[str]
) -> None:
    """It has read the output into a store of its own."""
    told = Told()
    told.commit(told.send(b"a"))
    told.start("w2")
    told.happen(EventKind.FORGOTTEN, process=forgets, ids=frozenset({b"a"}))
    told.send(b"a")
    told.commit([])
    assert told.kinds() == expected


def test_a_forgotten_id_may_be_learnt_again_at_a_start() -> None:
    told = Told()
    told.commit(told.send(b"a"))
    told.happen(EventKind.FORGOTTEN, ids=frozenset({b"a"}))
    told.start()
    told.send(b"a")
    told.commit([])
    assert told.kinds() == set()


# -- the input topic ---------------------------------------------------------------------------------


def test_input_that_was_made_again_begins_at_its_first_offset() -> None:
    told = Told()
    told.commit(told.send(b"a", b"b"))
    told.create(TopicRole.INPUT)
    told.start()
    c, d, _ = told.send(b"c", b"d", b"a")
    told.commit([c, d])
    assert told.kinds() == set()


def test_input_that_was_made_again_and_skipped_is_lost() -> None:
    told = Told()
    told.commit(told.send(b"a", b"b"))
    told.create(TopicRole.INPUT)
    told.start()
    _, _, e = told.send(b"c", b"d", b"e")
    told.commit([e])
    assert len(told.verdict().lost) == 2
    assert told.kinds() == {"lost"}


def test_unread_records_of_deleted_input_are_not_lost() -> None:
    told = Told()
    told.commit(told.send(b"a"))
    told.send(b"b")
    told.create(TopicRole.INPUT)
    assert told.kinds() == set()


def test_records_of_deleted_input_may_pass_after_its_deletion() -> None:
    told = Told()
    sent = told.send(b"a", b"b")
    told.create(TopicRole.INPUT)
    told.commit(sent, 2, input_topic=0)
    told.start()
    told.commit(told.send(b"c"))
    assert told.kinds() == set()


def test_an_offset_that_was_committed_for_deleted_input_covers_no_new_record() -> None:
    told = Told()
    sent = told.send(b"a", b"b")
    told.create(TopicRole.INPUT)
    told.commit(sent, 2)
    told.start()
    told.commit(told.send(b"c"))
    told.send(b"d")
    told.retain(TopicRole.INPUT, 2)
    told.start()
    told.commit(told.send(b"e"), expired_offsets=1, degraded={"InputExpired": 1})
    assert told.kinds() == set()


@pytest.mark.parametrize(
    ("order", "expected"), [((1, 2, 4), set()), ((1, 4, 2), {"reordered"})], ids=["in order", "not"]
)
def test_input_that_is_read_again_is_judged_in_the_order_of_the_second_reading(
    order: tuple[int, ...], expected: set[str]
) -> None:
    told = Told()
    (first,) = told.send(b"k")
    sent = [first, *told.send(b"b", b"k", b"b", b"c", value=b"x", timestamp_ms=1)]
    told.commit([*sent[:2], sent[4]])
    told.happen(EventKind.WORKER_ENDED, process="w1")
    told.happen(EventKind.OFFSETS_LOST, partition=None)
    told.retain(OUT, 3)
    told.start()
    told.commit([], 1, truncated=True, catch_up="TailRetainedAway")
    told.commit([sent[each] for each in order], 5, truncated=True, catch_up="TailRetainedAway")
    assert told.kinds() == expected


def test_expired_records_are_not_lost_if_the_worker_says_so() -> None:
    told = Told()
    told.commit(told.send(b"z"))
    told.send(b"a", b"b")
    told.retain(TopicRole.INPUT, 3)
    told.start()
    told.commit(told.send(b"c"), expired_offsets=2, degraded={"InputExpired": 2})
    verdict = told.verdict()
    verdict.assert_exactly_once(4)
    assert verdict.expired == 2


@pytest.mark.parametrize(
    "said",
    [{}, {"expired_offsets": 1, "degraded": {"InputExpired": 1}}, {"expired_offsets": 2}],
)
def test_expired_records_that_are_not_all_reported_are_silent(said: dict[str, object]) -> None:
    told = Told()
    told.commit(told.send(b"z"))
    told.send(b"a", b"b")
    told.retain(TopicRole.INPUT, 3)
    told.start()
    told.commit(told.send(b"c"))
    told.say(**said)
    assert told.kinds() == {"silent"}


def test_records_that_expired_before_the_first_was_read_are_not_reported() -> None:
    told = Told()
    told.send(b"a", b"b")
    told.retain(TopicRole.INPUT, 2)
    told.commit(told.send(b"c"))
    assert told.kinds() == set()


def test_records_before_which_retention_stopped_are_lost() -> None:
    told = Told()
    told.commit(told.send(b"z"))
    told.send(b"a", b"b")
    told.retain(TopicRole.INPUT, 2)
    told.start()
    told.commit(told.send(b"c"), expired_offsets=2, degraded={"InputExpired": 2})
    assert told.kinds() == {"lost"}


# -- the output topic --------------------------------------------------------------------------------


def test_ids_of_a_deleted_output_topic_are_forgotten_once_that_is_found() -> None:
    told = Told()
    told.commit(told.send(b"a"))
    told.create(OUT)
    told.start()
    told.say(catch_up="OutputTopicReplaced", errors={"OutputTopicReplaced": 1}, truncated=True)
    told.commit(told.send(b"a"))
    assert told.kinds() == set()
    told.send(b"b")
    told.commit([])
    assert told.kinds() == {"lost"}


def test_a_repeat_of_a_deleted_record_must_pass_once_that_is_found() -> None:
    told = Told()
    told.commit(told.send(b"a"))
    told.create(OUT)
    told.start()
    told.say(catch_up="OutputTopicReplaced")
    told.send(b"a")
    told.commit([])
    assert told.kinds() == {"lost"}


def test_a_repeat_of_a_deleted_record_may_be_dropped_before_that_is_found() -> None:
    told = Told()
    told.commit(told.send(b"a"))
    told.create(OUT)
    told.send(b"a")
    told.commit([])
    assert told.kinds() == set()


def test_records_of_a_transaction_that_was_open_at_the_deletion_are_not_lost() -> None:
    told = Told()
    told.commit(told.send(b"a"))
    told.send(b"b", b"b")
    told.create(OUT)
    told.commit([])
    told.send(b"b")
    told.commit([])
    assert told.kinds() == set()
    told.send(b"c")
    told.commit([])
    assert told.kinds() == {"lost"}


def test_a_replaced_output_topic_that_no_status_names_is_silent() -> None:
    told = Told()
    told.commit(told.send(b"a"))
    told.create(OUT)
    told.start()
    told.say()
    told.commit(told.send(b"a"))
    assert told.kinds() == {"silent"}


@pytest.mark.parametrize(("as_of_ms", "expected"), [(2500, set()), (9500, {"silent"})])
def test_a_snapshot_of_an_empty_volume_knows_no_output_topic_that_was_replaced(
    as_of_ms: int, expected: set[str]
) -> None:
    told = Told()
    told.commit(told.send(b"a"))
    assert [each.time_ms for each in told.statuses] == [5001]
    told.create(OUT)
    told.happen(EventKind.STORE_RESTORED, as_of_ms=as_of_ms)
    told.start("w2")
    told.say(catch_up="NewStore")
    told.commit(told.send(b"a"), catch_up="NewStore")
    assert told.kinds() == expected


def test_a_repeat_of_a_record_that_the_output_lost_passes_after_a_rebuild() -> None:
    told = Told()
    told.commit(told.send(b"a", b"b"))
    told.retain(OUT, 1)
    told.happen(EventKind.VOLUME_LOST)
    told.start()
    told.say(catch_up="NewStore", truncated=True)
    told.commit(told.send(b"a"), truncated=True)
    assert told.kinds() == set()
    told.commit(told.send(b"b"))
    assert told.kinds() == {"duplicated"}


def test_a_record_that_the_output_loses_during_a_catch_up_may_be_forgotten() -> None:
    told = Told()
    told.commit(told.send(b"a", b"b"))
    told.happen(EventKind.VOLUME_LOST)
    told.start()
    told.retain(OUT, 1)
    told.say(catch_up="NewStore", truncated=True)
    told.commit(told.send(b"a"), truncated=True)
    assert told.kinds() == set()
    told.commit(told.send(b"b"))
    assert told.kinds() == {"duplicated"}


def test_a_shortened_window_that_no_status_names_is_silent() -> None:
    told = Told()
    told.commit(told.send(b"a", b"b"))
    told.retain(OUT, 1)
    told.happen(EventKind.VOLUME_LOST)
    told.start()
    told.say(catch_up="NewStore")
    told.commit(told.send(b"a"))
    assert told.kinds() == {"silent"}


@pytest.mark.parametrize(
    ("step_ms", "expected"),
    [(2 * HOUR, set()), (HOUR // 2, {"silent"}), (-2 * HOUR, {"silent"})],
)
def test_a_rebuilt_window_may_be_called_whole_after_a_step_of_the_clock(
    step_ms: int, expected: set[str]
) -> None:
    """By the wall clock, what the output lacks is older than the window."""
    told = Told(rules=WINDOW)
    told.commit(told.send(b"a", b"b"))
    told.happen(EventKind.CLOCK_STEPPED, step_ms=step_ms)
    told.retain(OUT, 1)
    told.happen(EventKind.VOLUME_LOST)
    told.start()
    told.say(catch_up="NewStore")
    told.commit(told.send(b"a"))
    assert told.kinds() == expected


@pytest.mark.parametrize(
    ("unread", "passed", "expected"),
    [(None, HOUR, set()), (None, HOUR // 2, {"silent"}), (b"c", HOUR, {"silent"})],
)
def test_a_rebuilt_window_is_whole_if_the_output_lacks_only_what_is_older_than_it_before_all_unread_input(
    unread: bytes | None, passed: int, expected: set[str]
) -> None:
    """The worker is down for `passed`, in which no id ages. `unread` is sent before that."""
    told = Told(rules=WINDOW)
    told.commit(told.send(b"a", b"b"))
    told.retain(OUT, 1)
    told.happen(EventKind.WORKER_ENDED, process="w1")
    waits = told.send(unread) if unread else []
    told.wait(passed)
    told.happen(EventKind.VOLUME_LOST)
    repeats = told.send(b"a")
    told.start("w2")
    told.commit([*waits, *repeats], catch_up="NewStore")
    assert told.kinds() == expected


def test_retention_alone_shortens_no_window() -> None:
    told = Told()
    told.commit(told.send(b"a", b"b"))
    told.retain(OUT, 2)
    told.say(truncated=True)
    told.commit(told.send(b"a"))
    assert told.kinds() == {"duplicated"}


def test_a_lost_store_that_the_output_still_has_forgets_nothing() -> None:
    told = Told()
    told.commit(told.send(b"a"))
    told.happen(EventKind.VOLUME_LOST)
    told.start()
    told.say(catch_up="NewStore")
    told.commit(told.send(b"a"))
    assert told.kinds() == {"duplicated"}


def test_ids_of_foreign_records_are_known_from_the_next_start_on() -> None:
    told = Told()
    (a,) = told.send(b"a")
    told.commit([a])
    told.write(OUT, replace(a, key=b"f", value=b"f"), "foreign-1")
    told.commit(told.send(b"f"))
    assert told.kinds() == set()
    told.write(OUT, replace(a, key=b"g", value=b"g"), "foreign-1")
    told.start()
    told.say()
    told.commit(told.send(b"g"))
    assert told.kinds() == {"duplicated"}


def test_a_repeat_of_a_foreign_record_is_dropped_after_a_start() -> None:
    told = Told()
    (a,) = told.send(b"a")
    told.commit([a])
    told.write(OUT, replace(a, key=b"g", value=b"g"), "foreign-1")
    told.start()
    told.say()
    told.send(b"g")
    told.commit([])
    assert told.kinds() == set()


# -- offsets that were lost --------------------------------------------------------------------------


def read_again(*, exit_code: int | None, key: bytes | None, phase: str = "Running") -> Told:
    """Tell of a record that passes, lost offsets, the end of the worker, and the record again.

    `phase` is the last one that the worker names.
    """
    told = Told()
    sent = told.send(key)
    told.commit(sent)
    told.happen(EventKind.OFFSETS_LOST)
    told.say(phase=phase)
    told.happen(EventKind.WORKER_ENDED, process="w1", exit_code=exit_code)
    told.start()
    told.commit(sent)
    return told


def test_a_record_without_id_may_come_again_if_every_offset_was_lost() -> None:
    assert read_again(exit_code=None, key=None).kinds() == set()
    assert read_again(exit_code=66, key=None).kinds() == set()
    assert read_again(exit_code=0, key=None).kinds() == {"duplicated"}


@pytest.mark.parametrize("phase", ["Running", "Failed", "Stopping"])
def test_whether_a_worker_was_killed_is_not_for_itself_to_say(phase: str) -> None:
    assert read_again(exit_code=None, key=None, phase=phase).kinds() == set()
    assert read_again(exit_code=0, key=None, phase=phase).kinds() == {"duplicated"}


@pytest.mark.parametrize(("second", "expected"), [(0, {"duplicated"}), (None, set())])
def test_one_kill_among_several_ends_is_enough(second: int | None, expected: set[str]) -> None:
    told = Told()
    sent = told.send(None)
    told.commit(sent)
    told.happen(EventKind.OFFSETS_LOST)
    for exit_code in (0, second):
        told.happen(EventKind.WORKER_ENDED, process="w1", exit_code=exit_code)
        told.start()
    told.commit(sent)
    assert told.kinds() == expected


@pytest.mark.parametrize(("exit_code", "expected"), [(0, {"duplicated"}), (None, set())])
def test_a_worker_may_be_killed_at_the_moment_of_its_commit(
    exit_code: int | None, expected: set[str]
) -> None:
    told = read_again(exit_code=exit_code, key=None)
    at = next(each for each in told.events if each.kind is EventKind.WORKER_ENDED)
    committed_ms = told.topic(OUT).records[0].time_ms
    told.events.remove(at)
    told.events.insert(1, replace(at, time_ms=committed_ms))
    assert told.kinds() == expected


def test_a_record_whose_id_is_known_may_not() -> None:
    assert read_again(exit_code=None, key=b"a").kinds() == {"duplicated"}


def test_what_was_read_again_into_a_new_output_topic_begins_new_lives() -> None:
    told = Told()
    sent = told.send(b"a", b"b")
    told.commit(sent)
    told.send(b"a")
    told.commit([])
    told.create(OUT)
    told.happen(EventKind.OFFSETS_LOST)
    told.start()
    told.say(catch_up="OutputTopicReplaced")
    told.commit(sent)
    assert told.kinds() == set()


# -- without transactions ----------------------------------------------------------------------------


def test_a_record_in_flight_may_come_twice_without_transactions() -> None:
    told = Told(rules=AT_LEAST_ONCE)
    (a,) = told.send(b"a")
    old = told.session
    told.start("w2")
    told.wait(1000)
    told.write(OUT, a, old)
    told.wait(1000)
    told.write(OUT, a, told.session)
    told.commit([])
    assert told.kinds() == set()


@pytest.mark.parametrize(
    ("again", "expected"),
    [((0, 1, 4), set()), ((0, 4, 1), {"reordered"}), ((0, 1, 1, 4), {"duplicated"})],
)
@pytest.mark.parametrize("within_start", [False, True])
@pytest.mark.parametrize("reason", ["OutputTopicReplaced", "TailRetainedAway", "Tail"])
def test_what_was_not_committed_comes_again_in_order_if_the_output_lost_it(
    again: tuple[int, ...], expected: set[str], reason: str, *, within_start: bool
) -> None:
    """Without transactions. An equal record that follows is not taken for the one that comes again.

    `within_start`: it is lost after the start, before the session has read it.
    """
    told = Told(rules=AT_LEAST_ONCE)
    sent = told.send(b"a", b"b", b"a", b"b", b"c", value=b"x", timestamp_ms=1)
    for each in sent[:2]:
        told.write(OUT, each, told.session)
    if within_start:
        told.start("w2")
    if reason == "OutputTopicReplaced":
        told.create(OUT)
    elif reason == "TailRetainedAway":
        told.retain(OUT, 2)
    if not within_start:
        told.start("w2")
    told.say(catch_up=reason, truncated=reason != "Tail")
    for at in again:
        told.write(OUT, sent[at], told.session)
    told.commit([], catch_up=reason, truncated=reason != "Tail")
    assert told.kinds() == expected if reason != "Tail" else "duplicated" in told.kinds()


def test_output_that_is_lost_after_the_session_has_read_it_must_not_come_twice() -> None:
    told = Told(rules=AT_LEAST_ONCE)
    sent = told.send(b"a", b"b", b"a", b"b", b"c", value=b"x", timestamp_ms=1)
    for each in sent[:2]:
        told.write(OUT, each, told.session)
    told.start("w2")
    told.say(catch_up="Tail")
    told.write(OUT, sent[0], told.session)
    told.retain(OUT, 2)
    told.write(OUT, sent[1], told.session)
    told.commit([])
    assert "duplicated" in told.kinds()


@pytest.mark.parametrize(
    ("order", "expected"), [((0, 1, 2), set()), ((0, 2, 1), {"reordered"})], ids=["in order", "not"]
)
def test_input_that_is_read_again_without_transactions_is_judged_in_its_order(
    order: tuple[int, ...], expected: set[str]
) -> None:
    """From its start: every offset was lost, and the output has lost what passed."""
    told = Told(rules=AT_LEAST_ONCE)
    sent = told.send(b"a", b"b", b"c")
    told.commit(sent)
    told.happen(EventKind.WORKER_ENDED, process="w1")
    told.happen(EventKind.OFFSETS_LOST, partition=None)
    told.retain(OUT, 3)
    told.start("w2")
    told.commit([], 0, catch_up="TailRetainedAway", truncated=True)
    for at in order:
        told.write(OUT, sent[at], told.session)
    told.commit([], catch_up="TailRetainedAway", truncated=True)
    assert told.kinds() == expected


@pytest.mark.parametrize(("retained", "expected"), [(1, set()), (0, {"duplicated"})])
def test_a_record_that_the_output_lost_before_the_next_session_may_come_twice(
    retained: int, expected: set[str]
) -> None:
    """Without transactions, and if its offset was not committed."""
    told = Told(rules=AT_LEAST_ONCE)
    a, b = told.send(b"a", b"b")
    told.write(OUT, a, told.session)
    told.write(OUT, b, told.session)
    told.retain(OUT, retained)
    told.start("w2")
    reason = "TailRetainedAway" if retained else "Tail"
    told.say(catch_up=reason, truncated=bool(retained))
    told.write(OUT, a, told.session)
    told.commit([], catch_up=reason, truncated=bool(retained))
    assert told.kinds() == expected


def test_a_record_that_the_next_session_could_see_must_not_come_twice() -> None:
    told = Told(rules=AT_LEAST_ONCE)
    (a,) = told.send(b"a")
    told.write(OUT, a, told.session)
    told.start("w2")
    told.wait(1000)
    told.write(OUT, a, told.session)
    told.commit([])
    assert told.kinds() == {"duplicated"}


def test_a_record_whose_offset_was_committed_must_not_come_twice() -> None:
    told = Told(rules=AT_LEAST_ONCE)
    (a,) = told.send(b"a")
    told.commit([a])
    told.start("w2")
    told.wait(1000)
    told.write(OUT, a, told.session)
    assert told.kinds() == {"duplicated"}


def test_a_repeat_is_dropped_without_transactions_as_well() -> None:
    told = Told(rules=AT_LEAST_ONCE)
    told.commit(told.send(b"a"))
    told.commit(told.send(b"a"))
    assert told.kinds() == {"duplicated"}


def test_an_older_worker_that_nothing_fences_does_not_see_the_newer_ones_records() -> None:
    told = Told(rules=AT_LEAST_ONCE)
    first, repeat = told.send(b"a", b"a")
    old = told.session
    told.start("w2")
    told.wait(1000)
    told.write(OUT, first, old)
    told.wait(1000)
    told.write(OUT, repeat, told.session)
    told.commit([])
    assert told.kinds() == set()


# -- what the workers said ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frozen_ms", "expected"), [(None, {"silent"}), (-1, {"silent"}), (0, set()), (1, set())]
)
def test_a_session_notices_a_topic_that_is_created_again_unless_it_stood_still(
    frozen_ms: int | None, expected: set[str]
) -> None:
    """`frozen_ms`: when it is frozen, after its start."""
    told = Told()
    if frozen_ms is not None:
        told.events.append(
            OutsideEvent(
                time_ms=told.events[-1].time_ms + frozen_ms, kind=EventKind.FROZEN, partition=0
            )
        )
    told.create(OUT)
    told.wait(100_000)
    told.say(catch_up="OutputTopicReplaced", truncated=True)
    assert told.kinds() == expected


def test_a_lost_volume_that_no_status_names_is_silent() -> None:
    told = Told()
    told.commit(told.send(b"a"))
    told.happen(EventKind.VOLUME_LOST)
    told.start("w2")
    told.say(catch_up="Tail")
    assert told.kinds() == {"silent"}
    told.statuses[-1] = replace(told.statuses[-1], catch_up="NewStore")
    assert told.kinds() == set()


def test_an_older_worker_that_runs_on_has_its_own_volume() -> None:
    told = Told()
    told.commit(told.send(b"a"))
    told.happen(EventKind.VOLUME_LOST)
    told.start()
    told.say(catch_up="Tail")
    told.start("w2")
    told.say(catch_up="NewStore")
    assert told.kinds() == set()


@pytest.mark.parametrize(("second", "expected"), [(True, set()), (False, {"silent"})])
def test_a_worker_that_began_before_the_volume_was_lost_has_its_own(
    second: bool, expected: set[str]
) -> None:
    """Its first session may begin after that."""
    told = Told()
    told.commit(told.send(b"a"))
    if second:
        told.happen(EventKind.WORKER_STARTED, process="w2")
    told.happen(EventKind.VOLUME_LOST)
    told.happen(EventKind.WORKER_STARTED, process="w3")
    told.start("w2")
    told.say(catch_up="Tail")
    told.start("w3")
    told.say(catch_up="NewStore")
    assert told.kinds() == expected
    told.statuses[-1] = replace(told.statuses[-1], catch_up="Tail")
    assert told.kinds() == {"silent"}


def test_an_offset_that_does_not_exist_may_be_of_the_output() -> None:
    told = Told()
    told.commit(told.send(b"a"))
    told.say(errors={"OffsetOutOfRange": 1})
    assert told.kinds() == {"unfounded"}
    told = Told()
    told.commit(told.send(b"a"))
    told.retain(OUT, 1)
    told.say(errors={"OffsetOutOfRange": 1})
    assert told.kinds() == set()


@pytest.mark.parametrize(("routers", "expected"), [(True, set()), (False, {"unfounded"})])
def test_behind_routers_another_worker_may_have_deleted_what_is_read(
    expected: set[str], *, routers: bool
) -> None:
    told = Told(routers=routers)
    told.start("w1")
    told.start("w2")
    told.commit(told.send(b"a"))
    told.say(errors={"OffsetOutOfRange": 1})
    assert told.kinds() == expected


@pytest.mark.parametrize(
    ("said", "expected"), [({}, {"silent"}), ({"GenerationsDropped": 1}, set())]
)
def test_generations_dropped_at_once_are_named(said: dict[str, int], expected: set[str]) -> None:
    bounds = WindowBounds(keep_ms=HOUR, generation_ms=HOUR // 4)
    told = Told(rules=Rules(bounds=bounds))
    told.say(generations=5)
    told.wait(1000)
    told.say(generations=1, degraded=said)
    assert told.kinds() == expected


@pytest.mark.parametrize(("keep_ids", "expected"), [(3, {"silent"}), (2, set())])
def test_generations_dropped_for_their_size_need_no_name(keep_ids: int, expected: set[str]) -> None:
    """One after the other, as far as can be seen."""
    bounds = WindowBounds(keep_ms=HOUR, generation_ms=HOUR // 4, keep_ids=keep_ids)
    told = Told(rules=Rules(bounds=bounds))
    told.say(generations=5)
    told.commit(told.send(b"a", b"b", b"c"), generations=1)
    assert told.kinds() == expected


def test_a_generation_dropped_after_another_needs_no_name() -> None:
    bounds = WindowBounds(keep_ms=HOUR, generation_ms=HOUR // 4)
    told = Told(rules=Rules(bounds=bounds))
    told.say(generations=5)
    told.wait(HOUR)
    told.say(generations=1)
    assert told.kinds() == set()


@pytest.mark.parametrize(
    "reason",
    [
        "OutputTopicReplaced",
        "StoreAheadOfOutput",
        "OutputTruncated",
        "TailRetainedAway",
        "StoreCorrupt",
        "InputTruncated",
        "InputExpired",
        "Fenced",
    ],
)
def test_a_reason_without_a_cause_is_unfounded(reason: str) -> None:
    told = Told()
    told.say(reason=reason)
    assert told.kinds() == {"unfounded"}


def test_reasons_with_a_cause_are_not_unfounded() -> None:
    told = Told()
    told.say(reason="BrokerUnavailable")
    told.retain(TopicRole.INPUT, 1)
    told.say(errors={"OffsetOutOfRange": 1}, degraded={"InputExpired": 1})
    told.retain(OUT, 1)
    told.say(catch_up="TailRetainedAway")
    told.happen(EventKind.STORE_DAMAGED)
    told.say(errors={"StoreCorrupt": 1})
    told.start("w2")
    told.say(process="w1", reason="Fenced")
    told.create(OUT)
    told.start("w2")
    told.say(catch_up="OutputTopicReplaced")
    assert told.kinds() == set()


@pytest.mark.parametrize(("stands_still", "expected"), [(True, set()), (False, {"unfounded"})])
def test_the_worker_that_took_over_is_not_fenced_by_the_one_before(
    stands_still: bool, expected: set[str]
) -> None:
    """Unless that one has stood still within its start, and takes over later."""
    told = Told()
    if not stands_still:
        told.say()
    told.start("w2")
    told.say(process="w1")
    told.say(reason="Fenced")
    assert told.kinds() == expected


@pytest.mark.parametrize(("own_volume", "expected"), [(True, set()), (False, {"silent"})])
def test_a_second_worker_with_an_empty_volume_does_not_know_the_first_ones_output(
    own_volume: bool, expected: set[str]
) -> None:
    """The first worker runs on when the second one's volume is made."""
    told = Told()
    told.happen(EventKind.WORKER_STARTED, process="w1")
    told.wait(1000)
    if own_volume:
        told.happen(EventKind.VOLUME_LOST)
    told.happen(EventKind.WORKER_STARTED, process="w2")
    told.wait(1000)
    told.start("w1")
    told.say()
    told.create(OUT)
    told.start("w2")
    told.say(catch_up="NewStore")
    assert told.kinds() == expected


# -- routers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("routers", "expected"), [(True, {"duplicated"}), (False, set())])
def test_an_id_that_moves_to_a_new_partition_is_known_there(
    routers: bool, expected: set[str]
) -> None:
    told = Told(routers=routers)
    told.start(partition=1)
    for partition in (0, 1):
        told.commit(told.send(b"a", partition=partition), partition=partition)
    assert told.kinds() == expected


def test_what_was_read_without_routers_is_known_in_every_partition() -> None:
    told = Told(routers=True)
    told.start(partition=1)
    told.commit(told.send(b"a", partition=1), partition=1)
    told.topics.append(Topic(TopicRole.INPUT, "routed", 0))
    told.cuts = {1: 1}
    told.commit(told.send(b"a"))
    assert told.kinds() == {"duplicated"}


def test_a_record_that_is_routed_again_may_pass_again_without_transactions() -> None:
    for delivery, expected in (
        (Delivery.AT_LEAST_ONCE, set()),
        (Delivery.EXACTLY_ONCE, {"duplicated"}),
    ):
        told = Told(rules=Rules(delivery=delivery), routers=True)
        for _ in range(2):
            told.commit(told.send(b"a", value=b"x", timestamp_ms=1))
        records = told.topic(TopicRole.INPUT).records
        records[:] = [replace(each, origin="orders:0:7") for each in records]
        assert told.kinds() == expected
