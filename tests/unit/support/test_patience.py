import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from threading import Thread

import pytest

from tests.support.patience import (
    HANG_SECONDS,
    LONGEST_SECONDS,
    STRETCH,
    PatienceClock,
    pace,
    patience,
    patience_clock,
    wait_for,
)


class Machine:
    """A wall clock, and how long a second of CPU time takes."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slow = 1.0
        self.spins: list[float] = []
        self.clock = PatienceClock(wall=lambda: self.now, slowness=self._slowness)

    def passes(self, seconds: float, *, polls: int = 1) -> float:
        """Let wall time pass, with readings at equal distances; return what passed on the clock."""
        before = self.clock()
        for _ in range(polls):
            self.now += seconds / polls
            self.clock()
        return self.clock() - before

    def _slowness(self, spin: float) -> float:
        self.spins.append(spin)
        return self.slow


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_on_a_free_machine_it_is_the_wall_clock(machine: Machine) -> None:
    assert machine.passes(60, polls=100) == pytest.approx(60)


@pytest.mark.parametrize(("slow", "passed"), [(2, 30), (4, 15), (10, 6), (1000, 6)])
def test_it_slows_by_starvation_tenfold_at_most(
    machine: Machine, slow: float, passed: float
) -> None:
    machine.slow = slow
    assert machine.passes(60, polls=100) == pytest.approx(passed)


def test_it_follows_starvation_within_seconds(machine: Machine) -> None:
    machine.slow = 8
    machine.passes(60, polls=100)
    machine.slow = 1
    machine.passes(10, polls=20)
    assert machine.passes(60, polls=100) == pytest.approx(60, abs=3)


def test_chance_in_single_measurements_evens_out(machine: Machine) -> None:
    passed = 0.0
    for number in range(100):
        machine.slow = 1 if number % 2 else 9  # on average a second takes five
        passed += machine.passes(0.5)
    assert passed == pytest.approx(50 / 5, rel=0.1)


def test_a_gap_without_readings_counts_as_its_end(machine: Machine) -> None:
    machine.passes(10)
    machine.slow = 5
    assert machine.passes(100) == pytest.approx(20)


def test_it_never_goes_backward(machine: Machine) -> None:
    readings = []
    for number in range(2000):
        machine.slow = 1 + 40 * (number % 3)
        machine.now += 0.07
        readings.append(machine.clock())
    assert all(earlier < later for earlier, later in pairwise(readings))


def test_it_uses_two_percent_of_the_time_that_is_waited_and_nothing_between(
    machine: Machine,
) -> None:
    machine.passes(60, polls=6000)
    assert sum(machine.spins) == pytest.approx(1.2, rel=0.1)
    machine.spins.clear()
    machine.passes(3600)
    assert machine.spins == [0.05]


def test_busy_processes_slow_it_down() -> None:
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(8 * (os.cpu_count() or 1))
    ]
    try:
        began, clock_began = time.monotonic(), patience_clock()
        while time.monotonic() - began < 3:
            pace(0.05)
            patience_clock()
        wall, passed = time.monotonic() - began, patience_clock() - clock_began
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert passed < wall / 2  # about an eighth


def test_several_threads_read_one_clock() -> None:
    began, readings = patience_clock(), []

    def read() -> None:
        for _ in range(20):
            pace(0.02)
            readings.append(patience_clock())

    threads = [Thread(target=read) for _ in range(4)]
    wall = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(readings) == 80
    assert 0 < max(readings) - began <= time.monotonic() - wall + 0.5


def test_a_forked_child_can_read_it_while_a_thread_of_its_parent_does() -> None:
    clock = PatienceClock()
    with clock._lock:  # noqa: SLF001 # a reading that is going on at the moment of the fork
        if (pid := os.fork()) == 0:
            clock()
            os._exit(0)
    _, status = wait_for(lambda: _ended(pid), "the child has read it")
    assert status == 0


def _ended(pid: int) -> tuple[int, int] | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return (ended, status) if ended else None


def test_a_deadline_follows_the_clock() -> None:
    deadline, began = patience(0.4), patience_clock()
    while deadline.pause(0.1):
        pass
    assert patience_clock() - began >= 0.4


def test_what_hangs_is_seen_before_the_limit_of_a_test(pytestconfig: pytest.Config) -> None:
    assert LONGEST_SECONDS * STRETCH <= HANG_SECONDS < float(pytestconfig.getini("timeout"))


def test_it_waits_for_the_first_true_result() -> None:
    results: Iterator[str] = iter(["", "ready"])
    assert wait_for(lambda: next(results), "a result", poll_seconds=0.001) == "ready"


def test_it_says_what_did_not_happen() -> None:
    never: Callable[[], bool] = bool
    with pytest.raises(AssertionError, match=r"not within 0 s: it rains\nit is dry"):
        wait_for(never, "it rains", deadline_seconds=0.01, explain=lambda: "it is dry")
