"""What a start leaves on the volume when it is killed between any two of its steps."""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from dedupe_crds.manifest import parse_manifest
from dedupe_ids.extract import extractor_for
from dedupe_kafka.offsets import LastRead, OffsetRange
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import WorkerConfig
from dedupe_worker.dedup.window import Window
from dedupe_worker.kafka.admin import Topic, Topics
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.kafka.consumer import Batch
from dedupe_worker.recovery.input_offset import InputStart
from dedupe_worker.recovery.lost_tail import NOTHING_KNOWN, Known, furthest
from dedupe_worker.recovery.output_values import own_values
from dedupe_worker.recovery.shortened import ShortenedRebuild
from dedupe_worker.recovery.startup import OpenedStore, Startup
from dedupe_worker.recovery.tail import begin_rebuild
from dedupe_worker.recovery.taken_over import TakenOver
from dedupe_worker.side_topics.owner_log import encode_entries
from dedupe_worker.status import Progress, show_progress
from dedupe_worker.store.state_dir import Identity, StateDirectory
from dedupe_worker.values import OWNER_BYTES, decode_owner
from tests.unit.crds.manifests import changed
from tests.unit.worker.stores import random_ids, remember
from tests.unit.worker.strategies import message

STORES: dict[object, Any] = {
    "RocksDB": {"type": "RocksDB"},
    "InverseBloom": {"type": "InverseBloom", "inverseBloom": {"slots": 1024}},
}
IDENTITY = Identity(stream="shop/orders", partition=0, input_topic_id="in", output_topic_id="out")


class FakeTopics:
    """Partitions that hold [20, 90); a search by timestamp finds a record behind the first one."""

    def offsets(self, _topic: str, _partition: int) -> OffsetRange:
        return OffsetRange(20, 90)

    def settled_offsets(self, topic: str, partition: int, **_: object) -> OffsetRange:
        return self.offsets(topic, partition)

    def offset_at(self, _topic: str, _partition: int, _time: datetime) -> int | None:
        return 50


class Starts:
    """The starts of a worker on one volume. Each ends as a crash ends it: nothing is closed but the files."""

    def __init__(self, directory: Path, store: object = "RocksDB", **changes: Any) -> None:  # noqa: ANN401 (fields of spec)
        self.state = StateDirectory(directory)
        self.topics = FakeTopics()
        spec = {f"spec.{name}": value for name, value in changes.items()}
        spec |= {"metadata.namespace": "shop", "spec.store": STORES[store]}
        config = WorkerConfig(
            stream=parse_manifest(changed(spec), "test"),
            partition=0,
            state=self.state,
            properties={},
        )
        self.factory = ComponentFactory(config)
        self.startup = Startup(self.factory, extractor_for(config.stream.spec.id), Event())

    def partition(self, output_topic_id: str = "out") -> TakenOver:
        identity = IDENTITY.model_copy(update={"output_topic_id": output_topic_id})
        topic = cast("Any", SimpleNamespace(name="clean", id=output_topic_id))
        return TakenOver(
            topics=cast("Topics", self.topics),
            input_topic=Topic("orders", "in", 1),
            output_topic=topic,
            identity=identity,
            recorded=self.state.recorded("shop/orders", 0),
        )

    def open(self, output_topic_id: str = "out") -> OpenedStore:
        partition = self.partition(output_topic_id)
        opened = self.startup.open_store(partition)
        opened.store.close()
        self.state.record(partition.identity)
        return opened


@pytest.fixture
def starts(tmp_path: Path) -> Starts:
    return Starts(tmp_path)


def write_store(starts: Starts, position: int) -> None:
    store = starts.factory.make_store()
    remember(store, random_ids(1, 10), position=position)
    store.close()
    starts.state.record(IDENTITY)


@pytest.mark.parametrize(
    ("position", "output_topic_id", "reason"),
    [(10, "out", "TailRetainedAway"), (50, "new", "OutputTopicReplaced")],
)
def test_a_rebuild_with_a_shorter_window_that_is_killed_before_its_first_id_has_one_the_next_time(
    starts: Starts, position: int, output_topic_id: str, reason: str
) -> None:
    write_store(starts, position)
    plan = starts.open(output_topic_id).plan
    assert (plan.reason, plan.truncated) == (reason, True)
    again = starts.open(output_topic_id).plan
    assert (again.reason, again.rebuild, again.truncated) == (reason, True, True)


@pytest.mark.parametrize(
    ("position", "output_topic_id", "expected"),
    [(10, "out", 10), (50, "new", 50), (95, "out", -1)],
)
def test_a_store_that_is_discarded_for_its_output_leaves_its_input_offset(
    starts: Starts, position: int, output_topic_id: str, expected: int
) -> None:
    store = starts.factory.make_store()
    store.begin_input("in")
    remember(store, random_ids(1, 10), position=position)
    store.close()
    starts.state.record(IDENTITY)
    assert starts.open(output_topic_id).read_before.offset == expected
    assert starts.open(output_topic_id).read_before.offset == expected  # killed before its first id
    opened = starts.startup.open_store(starts.partition(output_topic_id))
    begin = starts.startup._begin  # noqa: SLF001 (what the first record of the output calls)
    begin(opened.plan, Window(opened.store), InputStart(expected, None, 0), 5)
    opened.store.close()
    assert starts.open(output_topic_id).read_before == NOTHING_KNOWN


def test_a_store_that_is_discarded_leaves_the_leader_epoch_of_its_input_offset(
    starts: Starts,
) -> None:
    store = starts.factory.make_store()
    store.begin_input("in")
    last_read = LastRead(8, 0)
    begin_rebuild(
        Window(store),
        start=10,
        input_offset=10,
        last_read=last_read,
        truncated=False,
        first_ms=0,
        now_ms=0,
    )
    store.close()
    starts.state.record(IDENTITY)
    known = starts.open().read_before
    assert known == Known(10, last_read)
    # The group has read a later log, which is shorter.
    assert furthest(Committed(5, None, epoch=1), None, known) == Known(5, LastRead(5, 1))


def test_an_input_offset_of_another_topic_is_not_left(starts: Starts) -> None:
    ShortenedRebuild(starts.state).record("NewStore", Known(7), "other")
    assert starts.open().read_before == NOTHING_KNOWN


@pytest.mark.parametrize(
    ("text", "read_before"), [("", -1), (f"7 {IDENTITY.input_topic_id}", 7), ("7 other", -1)]
)
def test_a_mark_of_an_earlier_version_names_no_reason(
    starts: Starts, text: str, read_before: int
) -> None:
    (starts.state.root / "shortened").write_text(text)
    opened = starts.open()
    assert (opened.read_before, opened.plan.reason) == (Known(read_before), "NewStore")
    assert opened.plan.truncated


def test_a_store_that_has_the_mark_itself_needs_no_other(starts: Starts) -> None:
    write_store(starts, 10)
    starts.open()
    opened = starts.startup.open_store(starts.partition())
    begin = starts.startup._begin  # noqa: SLF001 (what the first record of the output calls)
    begin(opened.plan, Window(opened.store), InputStart(0, None, 0), 5)
    opened.store.close()
    assert not ShortenedRebuild(starts.state).is_recorded
    after = starts.startup.open_store(starts.partition())
    stamp = after.store.metadata
    after.store.close()
    assert stamp is not None
    assert (after.plan.rebuild, stamp.truncated, stamp.forgotten_ms) == (False, True, 5)


def test_a_mark_that_outlives_the_rebuild_does_not_shorten_the_next_one(starts: Starts) -> None:
    """The process was killed between the store's mark and the removal of the other."""
    write_store(starts, 50)
    ShortenedRebuild(starts.state).record("NewStore")
    assert not starts.open().plan.rebuild
    assert not ShortenedRebuild(starts.state).is_recorded


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("flushed", [False, True])
def test_a_rebuild_that_is_killed_while_it_begins_keeps_its_marks(
    tmp_path: Path, kind: str, *, flushed: bool
) -> None:
    """The file says that the window is shorter until the store does, of either type."""
    starts, killed = Starts(tmp_path / "state", kind), tmp_path / "killed"
    write_store(starts, 10)
    starts.open()
    opened = starts.startup.open_store(starts.partition())
    flush = opened.store.flush

    def flush_and_be_killed() -> None:
        if flushed:
            flush()
        shutil.copytree(starts.state.root, killed)
        raise InterruptedError

    opened.store.flush = flush_and_be_killed  # type: ignore[method-assign] # to be killed there
    with pytest.raises(InterruptedError):
        starts.startup._begin(opened.plan, Window(opened.store), InputStart(0, None, 0), 5)  # noqa: SLF001 (what the first record of the output calls)
    opened.store.flush = flush  # type: ignore[method-assign]
    opened.store.close()
    again = Starts(killed, kind)
    after = again.startup.open_store(again.partition())
    stamp = after.store.metadata
    after.store.close()
    if flushed:
        assert stamp is not None
        assert (after.plan.rebuild, stamp.truncated, stamp.forgotten_ms) == (False, True, 5)
    else:
        assert stamp is None
        assert (after.plan.rebuild, after.plan.truncated) == (True, True)


class FewRecords:
    """A part of a topic: records with timestamps, behind transaction markers."""

    def __init__(self, times_ms: Sequence[int]) -> None:
        self._times_ms = list(times_ms)

    def seek(self, offset: int) -> None: ...
    def check(self, end: int) -> None: ...
    def close(self) -> None: ...

    def read(self, _max_records: int, _wait_seconds: float) -> Batch:
        if not self._times_ms:
            return Batch([], 90, 0)
        at = 90 - len(self._times_ms)
        return Batch([message(at, b"a", b"", time_ms=self._times_ms.pop(0))], at + 1, 0)


DAY_MS = 24 * 3600 * 1000


@pytest.mark.parametrize(
    ("output_days", "unread_days", "input_offset", "truncated"),
    [
        ([30], [], 90, False),  # at rest, and maxAge is 28 days
        ([27], [], 90, True),
        ([30], [1], 60, False),  # it has stood for a day
        ([30], [3], 60, True),  # for three days
        ([30], [-9], 60, False),  # its producer's clock is ahead
        ([27], [-9], 60, True),
        ([30], [], 60, False),  # only markers
        ([30], [20_000], 60, True),  # nonsense, so nothing is known
        ([], [], 90, True),  # the output has only markers
        ([30, 27], [], 90, True),  # the first one was late
        ([30, 29, 30], [], 90, False),
        ([30] * 10 + [27], [], 90, False),
    ],
)
def test_a_window_is_whole_if_the_output_has_what_the_backlog_may_repeat(  # noqa: PLR0917 (a table)
    starts: Starts,
    monkeypatch: pytest.MonkeyPatch,
    output_days: Sequence[int],
    unread_days: Sequence[int],
    input_offset: int,
    truncated: bool,
) -> None:
    now_ms = starts.factory.clock.time_ms()
    days = {"clean": output_days, "orders": unread_days}
    times_ms = {name: [now_ms - ago * DAY_MS for ago in each] for name, each in days.items()}
    monkeypatch.setattr(starts.factory, "make_reader", lambda name: FewRecords(times_ms[name]))
    monkeypatch.setattr(starts.startup, "_read_tail", lambda *given: given[-1](5))
    opened = starts.startup.open_store(starts.partition())
    window = Window(opened.store)
    starts.startup.catch_up(
        opened.partition,
        opened.plan,
        window,
        InputStart(input_offset, None, 0),
        learn=lambda _: None,
    )
    stamp = opened.store.metadata
    opened.store.close()
    assert stamp is not None
    assert stamp.truncated is truncated


def test_what_an_added_partition_learns_stays_shown(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own output is empty."""
    shown: list[str] = []
    state = starts.factory.worker_state

    def learn(_position: int) -> None:
        shown.append(state.reconcile.reason if state.reconcile else "nothing")
        show_progress(state, "Growth", Progress(1_000, 0, 3.0))

    monkeypatch.setattr(starts.topics, "offsets", lambda *_: OffsetRange(20, 20))
    opened = starts.startup.open_store(starts.partition())
    starts.startup.catch_up(
        opened.partition, opened.plan, Window(opened.store), InputStart(0, None, 0), learn=learn
    )
    opened.store.close()
    assert shown == ["NewStore"]
    assert state.reconcile is not None
    assert (state.reconcile.reason, state.reconcile.records) == ("Growth", 1_000)


@pytest.mark.parametrize("rebuild", [True, False])
def test_older_partitions_are_learnt_before_the_own_output_is_read(
    starts: Starts, monkeypatch: pytest.MonkeyPatch, *, rebuild: bool
) -> None:
    """Its records are newer."""
    done: list[tuple[str, int]] = []
    opened = starts.startup.open_store(starts.partition())
    plan = replace(opened.plan, start=30, rebuild=rebuild, truncated=True)

    def read_tail(*given: Any) -> None:  # noqa: ANN401 (of the method that it stands for)
        if begin := given[-1]:
            begin(5)
        done.append(("tail", given[1].start))

    monkeypatch.setattr(starts.startup, "_read_tail", read_tail)
    window = Window(opened.store)

    def learn(position: int) -> None:
        done.append(("learn", position))

    starts.startup.catch_up(opened.partition, plan, window, InputStart(0, None, 0), learn=learn)
    opened.store.close()
    assert done == [("learn", 30), ("tail", 30)]


class OneEntry(FewRecords):
    """An owner log of an earlier release: one entry, about output offset 60."""

    topic, partition = "out-owners", 0

    def read(self, _max_records: int, _wait_seconds: float) -> Batch:
        [entry] = encode_entries(60, np.array([7], np.uint64))
        return Batch([message(0, b"out", entry)], 90, 0)


@pytest.mark.parametrize(
    ("input_topic", "rebuild", "owner"),
    [("in", False, (0, 7)), ("another", False, None), ("in", True, None)],
)
def test_an_owner_that_names_no_topic_is_known_only_behind_a_store_of_the_same_input(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    input_topic: str,
    *,
    rebuild: bool,
    owner: tuple[int, int] | None,
) -> None:
    """After an upgrade a rebuild reads entries of any input; what comes after the store is of its input."""
    starts = Starts(tmp_path, duplicates={"policy": "Topic", "topic": "again"})
    write_store(starts, 50)
    monkeypatch.setattr(starts.factory, "make_reader", lambda _: OneEntry([]))
    partition = replace(starts.partition(), input_topic=Topic("orders", input_topic, 1))
    with ExitStack() as readers, closing(starts.factory.make_store()) as store:
        window = starts.factory.make_window(store)
        reading = own_values(starts.factory, partition, window, readers, rebuild=rebuild)
        [value] = reading.values([message(60, b"a")], np.arange(1), np.array([5])).tolist()
    assert decode_owner(value[:OWNER_BYTES]) == owner
