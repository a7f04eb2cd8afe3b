from threading import Event

import pytest

from dedupe_crds.deadline import Deadline


class Time:
    """A clock that moves only during a wait, and remembers each wait."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.waits.append(seconds)

    def deadline(self, seconds: float) -> Deadline:
        return Deadline(seconds, clock=self.clock, wait=self.wait)


def test_it_expires_at_its_moment_and_not_before() -> None:
    time = Time()
    deadline = time.deadline(10)
    time.now += 9.5
    assert not deadline.expired
    assert deadline.remaining() == 0.5
    time.now += 0.5
    assert deadline.expired
    time.now += 3600
    assert deadline.remaining() == 0.0
    assert deadline.seconds == 10


def test_pauses_end_at_the_deadline_and_the_last_attempt_follows_it() -> None:
    time = Time()
    deadline = time.deadline(10)
    assert [deadline.pause(4) for _ in range(4)] == [True, True, True, False]
    assert time.waits == [4, 4, 2]


def test_a_pause_of_no_time_only_checks() -> None:
    time = Time()
    deadline = time.deadline(10)
    assert deadline.pause(0)
    time.now += 10
    assert not deadline.pause(0)


def test_a_stop_event_interrupts_a_pause() -> None:
    stop = Event()
    deadline = Deadline(3600, wait=stop.wait)
    assert deadline.pause(0)
    stop.set()
    assert not deadline.pause(60)
    assert not deadline.expired


def test_the_first_true_result_is_returned_without_a_further_wait() -> None:
    time = Time()
    results = iter(["", "", "ready", "never asked for"])
    assert time.deadline(60).wait_for(lambda: next(results), poll_seconds=5) == "ready"
    assert time.waits == [5, 5]


def test_a_condition_that_never_holds_gives_its_last_result() -> None:
    time = Time()
    asked_at: list[float] = []
    assert time.deadline(10).wait_for(lambda: asked_at.append(time.now), poll_seconds=4) is None
    assert asked_at == [1000, 1004, 1008, 1010]


def test_a_process_that_stood_still_asks_again_after_the_deadline() -> None:
    time = Time()
    results = iter([False, True])

    def slow() -> bool:
        time.now += 3600
        return next(results)

    assert time.deadline(10).wait_for(slow, poll_seconds=1)


def test_without_any_time_the_condition_is_asked_once() -> None:
    time = Time()
    asked: list[float] = []
    assert time.deadline(0).wait_for(lambda: asked.append(time.now), poll_seconds=1) is None
    assert len(asked) == 1
    assert time.waits == []


def test_an_interrupted_wait_gives_the_last_result() -> None:
    stop = Event()
    stop.set()
    assert Deadline(3600, wait=stop.wait).wait_for(lambda: 0, poll_seconds=60) == 0


def test_errors_of_the_condition_are_not_caught() -> None:
    def fails() -> bool:
        raise ConnectionError("refused")

    with pytest.raises(ConnectionError, match="refused"):
        Time().deadline(10).wait_for(fails, poll_seconds=1)
