"""Where a start goes on, from what the store, the group and the topics say."""

import shutil
import time
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Message

from dedupe_crds.spec.topics import IdSource
from dedupe_ids.extract import extractor_for, pack_id
from dedupe_kafka.fetch_errors import InputTruncated
from dedupe_kafka.offsets import LastRead, OffsetRange
from dedupe_worker.dedup.window import Window
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.kafka.consumer import Batch
from dedupe_worker.recovery.lost_tail import Known, furthest
from dedupe_worker.recovery.tail import (
    CatchUpPlan,
    StartPlan,
    Trust,
    begin_rebuild,
    catch_up,
    plan_catch_up,
    plan_start,
)
from dedupe_worker.side_topics.owner_log import OutputValues
from dedupe_worker.store.metadata import StoreMetadata
from dedupe_worker.store.rocksdb import Store
from dedupe_worker.store.state_dir import Identity
from dedupe_worker.values import ValueLayout, timestamps, unknown_owners
from tests.unit.worker.stores import count_known, open_store, stamp
from tests.unit.worker.strategies import message

RECORDED = Identity(stream="shop/orders", partition=3, input_topic_id="in", output_topic_id="out")


def plan(
    has: StoreMetadata | None,
    *,
    recorded: Identity | None = RECORDED,
    output: OffsetRange,
    window_start: int = 0,
    output_topic_id: str = "out",
    trust: Trust = Trust.WHOLE,
    ahead: bool = False,
) -> CatchUpPlan:
    return plan_catch_up(
        has,
        recorded=recorded,
        output_topic_id=output_topic_id,
        output=output,
        window_start=window_start,
        trust=trust,
        ahead=ahead,
    )


@pytest.mark.parametrize("low", [0, 20, 50])
@pytest.mark.parametrize("end", [50, 51, 90])
def test_a_trusted_store_needs_the_tail_only(low: int, end: int) -> None:
    found = plan(stamp(50), output=OffsetRange(low, end), window_start=end)
    assert found == CatchUpPlan(start=50, rebuild=False, truncated=False, reason="Tail")


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ({"has": stamp(50), "ahead": True}, "StoreAheadOfOutput"),
        ({"has": stamp(19), "ahead": True}, "StoreAheadOfOutput"),
        ({"has": stamp(19)}, "TailRetainedAway"),
        ({"has": None}, "NewStore"),
        ({"has": None, "recorded": None}, "NewStore"),
        ({"has": stamp(), "recorded": None}, "NewStore"),
        ({"has": None, "trust": Trust.NONE}, "StoreCorrupt"),
        ({"has": stamp(), "output_topic_id": "other"}, "OutputTopicReplaced"),
        ({"has": None, "output_topic_id": "other", "trust": Trust.NONE}, "OutputTopicReplaced"),
    ],
)
def test_any_other_is_rebuilt_from_what_the_output_topic_holds(
    case: dict[str, object], reason: str
) -> None:
    found = plan(output=OffsetRange(20, 90), **case)  # type: ignore[arg-type] # of many types
    assert (found.start, found.rebuild, found.reason) == (20, True, reason)
    assert found.truncated, "what was before offset 20 is gone, and the window is shorter for it"


@pytest.mark.parametrize(
    ("low", "window_start", "truncated"),
    [
        (0, 0, False),
        (0, 40, False),
        (20, 0, True),  # retention has taken some of the window
        (20, 20, True),  # perhaps it has
        (20, 21, False),
        (20, 90, False),  # nothing is young enough
    ],
)
def test_a_rebuild_reads_all_there_is_and_tells_whether_that_is_the_window(
    low: int, window_start: int, *, truncated: bool
) -> None:
    found = plan(None, output=OffsetRange(low, 90), window_start=window_start)
    assert (found.start, found.truncated) == (low, truncated)


def test_ids_that_were_retained_away_unread_shorten_the_window_whatever_the_timestamps_say() -> (
    None
):
    assert plan(stamp(19), output=OffsetRange(20, 90), window_start=40).truncated


def test_a_replaced_output_topic_shortens_the_window_though_it_is_read_whole() -> None:
    assert plan(stamp(), output=OffsetRange(0, 0), output_topic_id="other").truncated


def known_of(committed: int | None, stored: int | None) -> Known:
    return furthest(
        None if committed is None else Committed(committed, None),
        None if stored is None else stamp(input_offset=stored),
    )


@pytest.mark.parametrize(
    ("committed", "stored", "expected"),
    [
        (None, None, StartPlan(20, 0)),
        (60, None, StartPlan(60, 0)),
        (None, 70, StartPlan(70, 0)),  # the group's offsets have expired
        (30, 70, StartPlan(70, 0)),  # somebody has set them back
        (80, 70, StartPlan(80, 0)),  # the store has not been flushed since
        (5, None, StartPlan(20, 15)),  # retention has taken what was not read
        (5, 12, StartPlan(20, 8)),
        (None, -1, StartPlan(20, 0)),  # learnt from the output, input offset not known
        (90, None, StartPlan(90, 0)),
        (0, None, StartPlan(20, 20)),
    ],
)
def test_the_input_is_read_on_from_the_furthest_offset_that_is_known(
    committed: int | None, stored: int | None, expected: StartPlan
) -> None:
    assert plan_start(known_of(committed, stored), OffsetRange(20, 90)) == expected


@pytest.mark.parametrize(("committed", "stored"), [(91, None), (None, 91), (10, 91)])
def test_an_input_that_ends_before_what_was_read_is_refused(
    committed: int | None, stored: int | None
) -> None:
    with pytest.raises(InputTruncated, match="ends at offset 90 but was read up to 91"):
        plan_start(known_of(committed, stored), OffsetRange(20, 90))


def test_lost_markers_after_the_last_record_are_no_lost_input() -> None:
    found = plan_start(Known(95, LastRead(85, 3)), OffsetRange(20, 90))
    assert found == StartPlan(85, 0)
    with pytest.raises(InputTruncated):
        plan_start(Known(95, LastRead(91, 3)), OffsetRange(20, 90))


def test_an_offset_in_an_open_transaction_of_the_input_is_waited_at() -> None:
    """A user may reset the group to the end, which is after the last stable offset."""
    found = plan_start(Known(95), OffsetRange(20, 90), high_watermark=95)
    assert found == StartPlan(95, 0)
    with pytest.raises(InputTruncated, match="ends at offset 95 but was read up to 96"):
        plan_start(Known(96), OffsetRange(20, 90), high_watermark=95)


class OutputReader:
    """A partition of one batch."""

    topic = "clean"

    def __init__(self, records: list[Message]) -> None:
        self._records = records

    def read(self, _max_records: int, _wait_seconds: float) -> Batch:
        return Batch(self._records, len(self._records), 0)

    def check(self, end: int) -> None:
        assert end == len(self._records)


def rebuild(
    store: Store,
    records: list[Message],
    *,
    start: int,
    truncated: bool = False,
    layout: ValueLayout = ValueLayout(),  # noqa: B008 (frozen)
) -> None:
    """Read output records into an empty store, as a worker that has discarded the one before."""
    window = Window(store, layout.dtype)
    catch_up(
        OutputReader(records),
        window,
        extractor_for(IdSource.model_validate({"from": "Key"})),
        OutputValues(layout, partition=0, owner_log=None),
        start=start,
        end=len(records),
        begin=lambda first_ms: begin_rebuild(
            window,
            start=start,
            input_offset=0,
            truncated=truncated,
            first_ms=first_ms,
            now_ms=int(time.time() * 1000),
        ),
        input_offset=0,
        stop=Event(),
        on_progress=lambda _: None,
    )


@pytest.mark.parametrize(("first", "forgotten"), [("past", "past"), ("future", "now")])
def test_what_a_rebuild_does_not_have_is_no_younger_than_now(
    tmp_path: Path, first: str, forgotten: str
) -> None:
    """Else a producer whose clock is ahead would make everything late that is to come."""
    before_ms = int(time.time() * 1000)
    times = {"past": before_ms - 1_000_000, "now": before_ms, "future": before_ms + 10**9}
    store = open_store(tmp_path)
    records = [message(0, b"a", time_ms=times[first]), message(1, b"b", time_ms=times["past"])]
    rebuild(store, records, start=1)
    assert times[forgotten] <= store.forgotten_ms <= int(time.time() * 1000)
    assert count_known(store, pack_id(b"a") + pack_id(b"b")) == 2
    store.close()


def test_a_rebuild_takes_the_newest_record_of_an_id_for_its_original(tmp_path: Path) -> None:
    """It passed after the id was forgotten, and is what a store without a rebuild names."""
    layout = ValueLayout(timed=True, hashed=True)
    store = open_store(tmp_path)
    records = [message(0, b"a", b"x", time_ms=5), message(1, b"a", b"y", time_ms=9)]
    rebuild(store, records, start=0, layout=layout)
    values = layout.encode(unknown_owners(1), records, np.array([1]), timestamps(records))
    assert Window(store, layout.dtype).find(pack_id(b"a")) == {0: values[0].tobytes()}
    store.close()


class Killed(Exception):
    """The process is no more."""


@pytest.mark.parametrize("step", ["begin", "first id", "first write"])
def test_a_rebuild_that_is_killed_leaves_its_marks_or_no_position(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store without a position is rebuilt again, with marks; one with it is only continued."""
    store = open_store(tmp_path / "db")
    at_step = {
        "begin": (Store, "write"),
        "first id": (Window, "admit"),
        "first write": (Store, "write"),
    }
    owner, name = at_step[step]
    real, calls = getattr(owner, name), []

    def kill(*given: Any, **named: Any) -> Any:  # noqa: ANN401 (of two methods)
        calls.append(name)
        if step == "first write" and len(calls) < 2:
            return real(*given, **named)
        shutil.copytree(tmp_path / "db", tmp_path / "killed")
        raise Killed

    monkeypatch.setattr(owner, name, kill)
    with pytest.raises(Killed):
        rebuild(store, [message(0, b"a", time_ms=5), message(1, b"b")], start=1, truncated=True)
    monkeypatch.undo()
    store.close()
    after = open_store(tmp_path / "killed")
    stamp = after.metadata
    if step == "begin":
        assert stamp is None
    else:
        assert stamp is not None
        assert (stamp.output_position, stamp.truncated, stamp.forgotten_ms) == (1, True, 5)
    after.close()


def test_a_rebuild_that_finds_transaction_markers_only_has_forgotten_what_was_before(
    tmp_path: Path,
) -> None:
    store, now_ms = open_store(tmp_path), int(time.time() * 1000)

    class Markers(OutputReader):
        def read(self, _max_records: int, _wait_seconds: float) -> Batch:
            return Batch([], 3, 0)

        def check(self, end: int) -> None:
            pass

    began: list[int] = []
    catch_up(
        Markers([]),
        Window(store),
        extractor_for(IdSource.model_validate({"from": "Key"})),
        OutputValues(ValueLayout(), partition=0, owner_log=None),
        start=2,
        end=3,
        begin=began.append,
        input_offset=0,
        stop=Event(),
        on_progress=lambda _: None,
    )
    assert [now_ms <= each <= now_ms + 60_000 for each in began] == [True]
    store.close()


def test_what_the_worker_has_written_itself_and_forgotten_stays_forgotten(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    window = Window(store)
    window.commit(output_position=0, input_offset=0, seen_ms=1)
    records = [message(offset, b"%d" % offset) for offset in range(7)]
    catch_up(
        OutputReader(records),
        window,
        extractor_for(IdSource.model_validate({"from": "Key"})),
        OutputValues(ValueLayout(), partition=0, owner_log=None),
        start=0,
        end=len(records),
        begin=None,
        input_offset=0,
        stop=Event(),
        on_progress=lambda _: None,
        own=[OffsetRange(1, 3), OffsetRange(5, 6)],
    )
    ids = b"".join(pack_id(b"%d" % offset) for offset in range(7))
    assert sorted(window.find(ids)) == [0, 3, 4, 6]
    store.close()
