"""The clock by which ids age: what moves it, and what does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_worker.dedup.ageing_clock import AgeingClock
from tests.unit.worker.still_clock import StillClock

WEEK = 7 * 24 * 3600.0
STARTED_MS = 1_000_000


class SteppedClock(StillClock):
    """A clock whose wall time can be set."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = 0.0

    def time(self) -> float:
        return self.seconds + self.ahead


class Worker:
    """A worker whose input has an end, and who reads up to a position."""

    def __init__(self, persisted_ms: int = 0) -> None:
        self.clock = SteppedClock()
        self.ageing = AgeingClock(self.clock, persisted_ms)

    def run(self, seconds: int, *, position: int = 5, end: int | None = 5) -> int:
        """Run for so long; return by how many seconds the ids have aged."""
        before = self.ageing.now_ms
        for _ in range(seconds):
            self.clock.sleep(1)
            self.ageing.advance(position, end)
        return round((self.ageing.now_ms - before) / 1000)


def test_a_new_store_begins_at_the_time_of_the_wall_clock() -> None:
    assert Worker().ageing.now_ms == STARTED_MS


def test_ids_age_while_the_worker_is_caught_up_with_or_without_traffic() -> None:
    worker = Worker()
    assert worker.run(3600) == 3600
    assert sum(worker.run(1, position=at, end=at + 3) for at in range(100)) == 100, "a busy input"


@pytest.mark.parametrize(("waited", "aged"), [(0.75, 250), (9.0, 250), (3600.0, 0)])
def test_an_id_that_comes_between_two_calls_ages_from_then_on(waited: float, aged: int) -> None:
    worker = Worker()
    worker.run(1)
    worker.clock.sleep(waited)
    added_ms = worker.ageing.latest_ms
    worker.clock.sleep(0.25)
    worker.ageing.advance(5, 5)
    assert worker.ageing.now_ms - added_ms == aged


def test_an_id_that_comes_while_the_wall_clock_is_set_back_has_the_time_that_stands_still() -> None:
    worker = Worker()
    worker.run(10)
    worker.clock.ahead = -5.0
    assert worker.ageing.latest_ms == worker.ageing.now_ms


def test_a_step_forward_by_weeks_ages_nothing() -> None:
    worker = Worker()
    worker.run(10)
    worker.clock.ahead = 3 * WEEK
    assert worker.run(10) == 10


@pytest.mark.parametrize("seconds", [10.0, 3 * WEEK])
def test_after_a_step_backward_it_stands_still_until_the_wall_clock_is_there(
    seconds: float,
) -> None:
    worker = Worker()
    worker.run(10)
    worker.clock.ahead = -seconds
    assert worker.run(9) == 0
    worker.clock.ahead = 0
    assert worker.run(10) == 10


def test_a_persisted_time_in_the_future_stands_still_and_is_not_taken_back() -> None:
    worker = Worker(STARTED_MS + 100_000)
    assert worker.run(100) == 0
    assert worker.run(5) == 5


def test_a_stop_ages_nothing_and_neither_does_the_backlog_that_waits_after_it() -> None:
    worker = Worker(int(STARTED_MS - 5 * WEEK * 1000))
    assert worker.run(7200, position=10, end=1_000) == 0
    assert worker.run(1, position=1_000, end=1_400) == 0, "what came in these two hours waits"
    assert worker.run(600, position=1_399, end=1_500) == 0
    assert worker.run(10, position=1_500, end=1_500) == 10


def test_an_unknown_end_is_no_proof_that_nothing_waits() -> None:
    assert Worker().run(100, end=None) == 0


def test_a_backlog_that_grows_while_it_runs_stops_it_within_a_minute() -> None:
    worker = Worker()
    worker.run(10)
    assert worker.run(7200, position=6, end=10_000) <= 60


def test_a_frozen_process_does_not_count_as_time_while_caught_up() -> None:
    worker = Worker()
    worker.run(10)
    worker.clock.sleep(3 * WEEK)
    assert worker.run(1) <= 10


steps = st.lists(
    st.tuples(
        st.floats(0, 3 * WEEK),
        st.floats(-3 * WEEK, 3 * WEEK),
        st.integers(0, 10),
        st.none() | st.integers(0, 10),
    ),
    max_size=20,
)


@given(steps, st.integers(0, 10**12))
def test_it_never_goes_backward_and_never_faster_than_time(
    moves: list[tuple[float, float, int, int | None]], persisted_ms: int
) -> None:
    worker = Worker(persisted_ms)
    for elapsed, ahead, position, end in moves:
        before = worker.ageing.now_ms
        worker.clock.sleep(elapsed)
        worker.clock.ahead = ahead
        worker.ageing.advance(position, end)
        gained = worker.ageing.now_ms - before
        assert 0 <= gained <= elapsed * 1000 + 1
        assert gained == 0 or worker.ageing.now_ms <= worker.clock.time_ms()
