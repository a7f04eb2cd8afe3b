"""The clock: all that it tells is of one time, and a stop ends its pauses."""

from threading import Event

from dedupe_crds.clock import SYSTEM_CLOCK
from tests.unit.worker.still_clock import StillClock


def test_all_times_are_of_one_clock() -> None:
    clock = StillClock()
    assert clock.time_ms() == 1_000_000
    assert clock.now().timestamp() == 1_000
    deadline = clock.deadline(5)
    assert deadline.pause(3)
    assert clock.seconds == 1_003
    assert deadline.pause(3)
    assert (deadline.expired, clock.seconds) == (True, 1_005)


def test_a_stop_ends_the_pauses_of_a_deadline() -> None:
    stop = Event()
    deadline = SYSTEM_CLOCK.deadline(60, stop)
    assert deadline.pause(0)
    stop.set()
    assert not deadline.pause(60)
