"""Which committed offsets count for the input topic as it is now."""

from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dedupe_crds.clock import SYSTEM_CLOCK
from dedupe_crds.manifest import parse_manifest
from dedupe_kafka.offset_metadata import encode_metadata
from dedupe_worker.kafka.admin import Topic
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.recovery.input_offset import InputStart, begin_input, begin_output, find_start
from dedupe_worker.recovery.lost_tail import LostTail
from dedupe_worker.status import WorkerState
from tests.unit.crds.manifests import changed
from tests.unit.worker.recovery.partitions import IDENTITY, taken_over
from tests.unit.worker.stores import stamp

OURS = encode_metadata("out", "now", None)
OTHERS = encode_metadata("out", "before", 7)
EARLIER = "out:7"


class Reader:
    """A group with this committed offset."""

    def __init__(self, committed: Committed | None) -> None:
        self._committed = committed

    def committed(self) -> Committed | None:
        return self._committed


def worker_state() -> WorkerState:
    return WorkerState(parse_manifest(changed({}), "test"), 0)


def find(
    metadata: str | None,
    recorded: str | None,
    stored: int = -1,
    *,
    committed: int | None = 60,
    state: WorkerState | None = None,
    trims: bool = False,
    own: str = "",
) -> InputStart:
    """Find the start with an offset committed, and an input of [20, 90)."""
    partition = taken_over(
        IDENTITY.model_copy(update={"input_topic_id": recorded}) if recorded else None
    )
    found = None if committed is None else Committed(committed, metadata)
    reader = cast("PartitionReader", Reader(found))
    store = cast("Any", SimpleNamespace(metadata=replace(stamp(1, stored), own_output=own)))
    tail = LostTail(lambda: reader, (), SYSTEM_CLOCK, Event())
    return find_start(
        partition, reader, store, state or worker_state(), "group", tail=tail, trims=trims
    )


@pytest.mark.parametrize(
    ("metadata", "recorded", "offset"),
    [
        (OURS, "now", 60),
        (OURS, "before", 60),  # killed before the identity was recorded
        (OURS, None, 60),
        (OTHERS, "now", 20),
        (OTHERS, "before", 20),
        (OTHERS, None, 20),  # the volume is lost
        (EARLIER, "now", 60),
        (EARLIER, "before", 20),
        (EARLIER, None, 60),
        ("", "now", 60),  # set by a user
        (None, "before", 20),
    ],
)
def test_a_committed_offset_counts_for_the_topic_that_it_names(
    metadata: str | None, recorded: str | None, offset: int
) -> None:
    start = find(metadata, recorded)
    assert start.offset == offset
    assert (start.committed is not None) == (offset == 60)
    assert start.unlabelled == (metadata != OURS)


def test_the_offset_of_the_store_counts_as_well() -> None:
    assert find(OTHERS, "now", stored=70).offset == 70


@pytest.mark.parametrize(
    ("committed", "stored", "own", "position"),
    [
        (None, 70, "", 1),
        (60, 70, "", 1),
        (60, 70, "3-5,7-9", 9),  # behind foreign records that are not learnt yet
        (60, 50, "", None),
        (None, 0, "", None),  # of an earlier input
    ],
)
def test_the_output_position_of_the_store_counts_with_its_offset(
    committed: int | None, stored: int, own: str, position: int | None
) -> None:
    assert find(OURS, "now", stored, committed=committed, own=own).stored == position


@pytest.mark.parametrize(("committed", "reasons"), [(20, []), (5, [("InputExpired", 15)])])
def test_input_that_expired_unread_is_a_degraded_reason(
    committed: int, reasons: list[tuple[str, int]]
) -> None:
    state = worker_state()
    assert find(OURS, "now", committed=committed, state=state).offset == 20
    found = [(each.reason, each.count) for each in state.degradations.current()]
    assert found == reasons
    assert state.tally.expired_offsets == 20 - committed


@pytest.mark.parametrize(
    ("committed", "stored", "offset", "expired"),
    [
        (20, 20, 20, 0),  # all that was committed is deleted
        (20, 5, 20, 0),  # the store is a restored one
        (None, 5, 20, 0),  # and the group's offset has expired
        (None, -1, 20, 0),
        (5, 5, 20, 15),  # deleted by others
    ],
)
def test_input_that_workers_have_deleted_themselves_has_not_expired(
    committed: int | None, stored: int, offset: int, expired: int
) -> None:
    state = worker_state()
    start = find(OURS, "now", stored, committed=committed, state=state, trims=True)
    assert (start.offset, start.expired) == (offset, expired)
    assert state.tally.expired_offsets == expired
    assert bool(state.degradations.current()) == bool(expired)


@pytest.mark.parametrize(
    ("recorded", "metadata", "kept"),
    [
        ("before", encode_metadata("out", "now", 7), True),  # an older volume
        ("before", encode_metadata("before", "now", 7), False),
        ("before", None, False),
        ("out", encode_metadata("out", "now", 7), False),  # no topic ids: it may be of any
        (None, encode_metadata("out", "now", 7), False),
    ],
)
def test_an_output_position_counts_for_the_topic_that_it_names(
    recorded: str | None, metadata: str | None, kept: bool
) -> None:
    committed = Committed(60, metadata)
    of = IDENTITY.model_copy(update={"output_topic_id": recorded}) if recorded else None
    start = begin_output(InputStart(60, committed, 90), taken_over(of))
    assert start == InputStart(60, committed if kept else None, 90)


def begin(
    state: WorkerState, stored: str | None, *, same_input: bool, earlier: str = "direct"
) -> None:
    """Begin the present topic with a store of another, or none, that has read up to 41."""
    store = cast("Any", SimpleNamespace(begin_input=lambda *_, **__: None))
    found = cast("Any", SimpleNamespace(input_topic=stored, input_offset=41)) if stored else None
    topic = Topic("orders", "now", 1)
    begin_input(
        *(state, topic, store, found),
        unlabelled="now",
        same_input=same_input,
        earlier=frozenset({earlier}),
    )


def test_a_replaced_input_topic_is_reported_with_the_offset_up_to_which_it_was_read() -> None:
    state = worker_state()
    begin(state, "before", same_input=True)
    [degraded] = state.degradations.current()
    assert degraded.reason == "InputTopicReplaced"
    assert "up to offset 41;" in degraded.message


@pytest.mark.parametrize(
    ("known_end", "read", "named"),
    [
        (90, 41, "(at least 49 offsets)"),
        (90, 60, "(at least 30 offsets)"),
        (41, 41, ""),
        (-1, 0, ""),
    ],
)
def test_the_offsets_that_were_certainly_unread_are_counted(
    known_end: int, read: int, named: str
) -> None:
    state = worker_state()
    state.known_input_end = known_end
    state.input = state.input.model_copy(update={"next_offset": read})
    begin(state, "before", same_input=True)
    [degraded] = state.degradations.current()
    assert f"is lost{' ' if named else ''}{named}. The new one" in degraded.message
    assert state.known_input_end == -1, "the end of the new topic is not known yet"


@pytest.mark.parametrize("stored", ["now", None])
def test_a_replaced_input_topic_that_only_the_identity_shows_is_reported_once(
    stored: str | None,
) -> None:
    """The start that has seen it in the store was killed, or there is no store."""
    state = worker_state()
    begin(state, stored, same_input=True)
    assert state.degradations.current() == []
    begin(state, stored, same_input=False)
    [degraded] = state.degradations.current()
    assert "was read in part;" in degraded.message
    begin(state, stored, same_input=False)  # a session that failed before it recorded the identity
    assert [each.count for each in state.degradations.current()] == [1]


def test_what_was_read_of_a_replaced_topic_stays_reported_in_a_session_after_a_failed_one() -> None:
    state = worker_state()
    begin(state, "before", same_input=False)
    begin(state, "now", same_input=False)
    [degraded] = state.degradations.current()
    assert "up to offset 41;" in degraded.message
