"""The simulated clock."""

from threading import Event

from tests.simulation.clock import START, SimClock


def test_a_wait_takes_simulated_time_only() -> None:
    clock = SimClock()
    clock.sleep(3600.0)
    assert (clock.monotonic(), clock.time()) == (3600.0, START + 3600.0)


def test_the_wall_clock_steps_and_the_monotonic_one_does_not() -> None:
    clock = SimClock()
    clock.step_wall(-60.0)
    assert (clock.monotonic(), clock.time()) == (0.0, START - 60.0)


def test_what_is_due_runs_at_its_time_and_may_plan_more() -> None:
    clock, seen = SimClock(), list[float]()

    def again() -> None:
        seen.append(clock.monotonic())
        if len(seen) < 3:
            clock.after(2.0, again)

    clock.after(1.0, again)
    clock.sleep(10.0)
    assert seen == [1.0, 3.0, 5.0]
    assert clock.monotonic() == 10.0


def test_an_event_that_is_set_meanwhile_is_reported() -> None:
    clock, event = SimClock(), Event()
    clock.after(1.0, event.set)
    assert clock.wait(event, 5.0)
    assert not clock.wait(Event(), 5.0)


def test_a_deadline_of_this_clock_expires_without_waiting() -> None:
    deadline = SimClock().deadline(240.0)
    pauses = 0
    while deadline.pause(1.0):
        pauses += 1
    assert pauses == 240
