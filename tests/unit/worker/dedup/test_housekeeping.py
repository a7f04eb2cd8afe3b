"""The work between two batches: when each part of it is done."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from shutil import copytree

import pytest

from dedupe_crds.spec.stream import DedupeStream
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import WorkerConfig
from dedupe_worker.dedup import ageing_clock
from dedupe_worker.dedup.ageing_clock import AgeingClock
from dedupe_worker.dedup.housekeeping import Housekeeping
from dedupe_worker.dedup.window import Window
from dedupe_worker.status import WorkerState
from dedupe_worker.store.rocksdb import Store
from dedupe_worker.store.state_dir import StateDirectory
from tests.unit.crds.manifests import MINIMAL
from tests.unit.worker.dedup.test_ageing_clock import WEEK, SteppedClock
from tests.unit.worker.still_clock import StillClock
from tests.unit.worker.stores import OWNER, count_known, open_store, random_ids, remember


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path)
    yield opened
    opened.close()


class Watched:
    """The housekeeping of a store, on a clock that stands still between two calls."""

    def __init__(self, store: Store, clock: StillClock | None = None) -> None:
        self.clock = clock or StillClock()
        self.state = WorkerState(DedupeStream.model_validate(MINIMAL), 0, self.clock)
        self.done: list[str] = []
        self.dropped: list[int] = []
        self.window = Window(
            store,
            ageing=AgeingClock(self.clock, store.aged_ms),
            on_dropped=self.dropped.append,
        )
        self.housekeeping = Housekeeping(
            self.window,
            self.state,
            self.clock,
            alert_below=timedelta(),
            run_commands=lambda: self.done.append("commands"),
            check_topics=lambda: self.done.append("topics"),
            read_foreign=lambda: self.done.append("foreign"),
        )

    def after(self, seconds: float, *, in_transaction: bool = False) -> list[str]:
        """Return the actions of the housekeeping some seconds later."""
        self.clock.sleep(seconds)
        self.done.clear()
        self.housekeeping.run(in_transaction=in_transaction)
        return self.done


def test_topics_are_checked_every_ten_seconds_and_commands_run_each_time(store: Store) -> None:
    watched = Watched(store)
    assert watched.after(0) == ["commands", "foreign", "topics"]
    assert watched.after(9) == ["commands"]
    assert watched.after(1) == ["commands", "foreign", "topics"]


def test_nothing_touches_the_store_within_a_transaction(store: Store) -> None:
    watched = Watched(store)
    store.age = lambda _: pytest.fail("aged")  # type: ignore[method-assign, assignment]
    store.refill = lambda _: pytest.fail("refilled")  # type: ignore[method-assign, assignment]
    assert watched.after(20, in_transaction=True) == ["topics"]


def test_the_window_that_is_shown_is_never_that_of_the_session_before(store: Store) -> None:
    remember(store, random_ids(1, 10), position=10)
    assert Watched(store).state.window.keys == 10


def test_the_status_of_the_window_is_taken_every_second(store: Store) -> None:
    watched = Watched(store)
    watched.after(0)
    shown = watched.state.window
    watched.after(0.5)
    assert watched.state.window is shown
    watched.after(0.5)
    assert watched.state.window is not shown


def test_a_store_at_rest_is_flushed_once(tmp_path: Path, store: Store) -> None:
    """The group's committed offset expires at rest; then a kill must find the store's."""
    watched = Watched(store)
    watched.window.admit(random_ids(1, 10), [OWNER] * 10)
    watched.window.commit(output_position=10, input_offset=17, seen_ms=watched.clock.time_ms())
    flushes: list[float] = []
    flush = store.flush

    def counted() -> None:
        flushes.append(watched.clock.monotonic())
        flush()

    store.flush = counted  # type: ignore[method-assign] # to count its calls
    watched.after(1)
    watched.after(500)
    assert not flushes, "while records come now and then, nothing is flushed for its age"
    for _ in range(5):
        watched.after(300)
    assert len(flushes) == 1
    copytree(tmp_path, tmp_path.with_name("after a kill"))
    left = open_store(tmp_path.with_name("after a kill"))
    assert left.metadata is not None
    assert left.metadata.input_offset == 17
    left.close()


DAY = 24 * 3600.0


@pytest.fixture
def _hours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an hour count as a second does: the clock is advanced once an hour."""
    monkeypatch.setattr(ageing_clock, "_LONGEST_STEP_SECONDS", 3600.0)


class Days(Watched):
    """A worker that gets 100 new ids a day, and reads them at once, on a clock of steps."""

    def __init__(self, store: Store, clock: SteppedClock) -> None:
        super().__init__(store, clock)
        self.wall = clock
        self.position = 0

    def read(self, day: int, lag: int = 0) -> int:
        """Read a day's ids, and leave so much of the input; return how many were known."""
        self.position += 100
        known = len(self.window.admit(random_ids(day, 100), [OWNER] * 100))
        now_ms = self.wall.time_ms()
        self.window.commit(
            output_position=self.position, input_offset=self.position, seen_ms=now_ms
        )
        self.window.age(now_ms)
        self.show(lag)
        return known

    def show(self, lag: int) -> None:
        end = self.position + lag
        self.state.input = self.state.input.model_copy(
            update={"next_offset": self.position, "end_offset": end, "lag_messages": lag}
        )

    def rest(self, days: float, lag: int = 0) -> None:
        """Let so much time pass, an hour at a time."""
        assert self.window.ageing is not None
        self.show(lag)
        for _ in range(int(days * 24)):
            self.wall.sleep(3600)
            self.window.ageing.advance(self.position, self.position + lag)
        self.after(1)


@pytest.mark.usefixtures("_hours")
def test_a_step_of_the_wall_clock_by_weeks_drops_nothing(store: Store) -> None:
    clock = SteppedClock()
    worker = Days(store, clock)
    for day in range(1, 19):
        worker.read(day)
        worker.rest(1)
    assert len(store.generations()) > 3
    clock.ahead = 5 * WEEK
    worker.after(1)
    worker.read(100)
    worker.after(1)
    assert all(count_known(store, random_ids(day, 100)) == 100 for day in range(1, 19))
    clock.ahead = -5 * WEEK
    worker.after(1)
    assert worker.state.window.seconds >= 17 * DAY, "no age is negative"
    assert all(count_known(store, random_ids(day, 100)) == 100 for day in range(1, 19))


@pytest.mark.usefixtures("_hours")
def test_after_a_stop_longer_than_the_window_the_repeats_of_the_backlog_are_known(
    tmp_path: Path,
) -> None:
    clock = SteppedClock()
    store = open_store(tmp_path / "again")
    worker = Days(store, clock)
    for day in range(1, 11):
        worker.read(day)
        worker.rest(1)
    store.flush()
    store.close()
    clock.sleep(6 * WEEK)

    store = open_store(tmp_path / "again")
    worker = Days(store, clock)
    worker.after(1)
    assert [worker.read(day, lag=100 * (11 - day)) for day in range(1, 11)] == [100] * 10
    worker.rest(5)
    assert count_known(store, random_ids(1, 100)) == 100, "ids still age, from where they were"
    for day in range(20, 50):
        worker.read(day)
        worker.rest(1)
    assert count_known(store, random_ids(1, 100)) == 0
    assert set(worker.dropped) == {1}
    store.close()


def test_ids_are_written_with_the_time_by_which_they_age(store: Store) -> None:
    """With the wall clock's the next session would begin there, and drop what is older."""
    clock = SteppedClock()
    worker = Days(store, clock)
    began_ms = clock.time_ms()
    clock.ahead = 5 * WEEK
    worker.read(1)
    assert store.aged_ms == began_ms
    [generation] = store.generations()
    assert (generation.aged_from_ms, generation.aged_to_ms) == (began_ms, began_ms)
    assert generation.last_seen_ms == clock.time_ms(), "a lookup shows the wall clock's"


@pytest.mark.usefixtures("_hours")
def test_generations_that_are_dropped_at_once_are_counted(tmp_path: Path) -> None:
    store = open_store(tmp_path / "again")
    worker = Days(store, SteppedClock())
    for day in range(1, 29):
        worker.read(day)
        worker.rest(1)
    assert not worker.dropped
    store.bounds = replace(store.bounds, max_age=timedelta(days=2))
    worker.after(1)
    assert [number > 1 for number in worker.dropped] == [True]
    store.close()


def make_factory(root: Path) -> ComponentFactory:
    stream = DedupeStream.model_validate(MINIMAL)
    return ComponentFactory(
        WorkerConfig(stream=stream, partition=0, state=StateDirectory(root), properties={})
    )


def test_the_window_of_a_session_goes_on_from_the_time_in_the_store(tmp_path: Path) -> None:
    """However long the worker was stopped."""
    factory = make_factory(tmp_path)
    store = factory.make_store()
    remember(store, random_ids(1, 10), position=10, now_ms=5_000)
    window = factory.make_window(store)
    assert window.age_ms(factory.clock.time_ms()) == 5_000
    store.close()


@pytest.mark.parametrize(("number", "reasons"), [(1, []), (2, ["GenerationsDropped"])])
def test_more_than_one_generation_at_once_is_a_degraded_reason(
    tmp_path: Path, number: int, reasons: list[str]
) -> None:
    factory = make_factory(tmp_path)
    store = factory.make_store()
    window = factory.make_window(store)
    store.age = lambda _: number  # type: ignore[method-assign, assignment]
    window.age(0)
    found = factory.worker_state.degradations.current()
    assert [each.reason for each in found] == reasons
    store.close()
