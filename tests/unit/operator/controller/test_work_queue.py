"""The queue against a model of it: nothing lost, nothing early, no stream with two threads."""

from collections.abc import Callable
from threading import Event, Thread

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dedupe_operator.controller.work_queue import Key, WorkQueue
from tests.unit.operator.waits import until

ORDERS, OTHERS = Key("shop", "orders"), Key("shop", "others")
keys = st.sampled_from([ORDERS, OTHERS, Key("other", "orders")])
delays = st.integers(0, 20)


class QueueModel(RuleBasedStateMachine):
    """Due times by stream, in plain dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = WorkQueue()
        self.now = 0.0
        self.due: dict[Key, float] = {}
        self.busy: dict[Key, float | None] = {}  # and when they are due again, if they are
        self.failures: dict[Key, int] = {}

    @rule(key=keys, delay=delays)
    def add(self, key: Key, delay: int) -> None:
        due = self.now + delay
        self.queue.add(key, due)
        if key in self.busy:
            again = self.busy[key]
            self.busy[key] = due if again is None else min(again, due)
        else:
            self.due[key] = min(self.due.get(key, due), due)

    @rule(seconds=delays)
    def pass_time(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        taken = self.queue.take(self.now)
        if taken is None:
            assert not any(due <= self.now for due in self.due.values())
            return
        assert taken not in self.busy
        assert self.due[taken] <= self.now
        assert self.due[taken] == min(self.due.values())
        del self.due[taken]
        self.busy[taken] = None

    @precondition(lambda self: self.busy)
    @rule(data=st.data(), delay=st.none() | delays, failed=st.booleans())
    def give_back(self, data: st.DataObject, delay: int | None, *, failed: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.busy)))
        due = None if delay is None else self.now + delay
        self.queue.done(key, due=due, failed=failed)
        times = [time for time in (self.busy.pop(key), due) if time is not None]
        if times:
            self.due[key] = min(times)
            self.failures[key] = self.failures.get(key, 0) + 1 if failed else 0
        else:
            self.failures.pop(key, None)

    @invariant()
    def it_knows_the_same_streams(self) -> None:
        assert len(self.queue) == len(self.due.keys() | self.busy.keys())
        for key in (ORDERS, OTHERS):
            assert self.queue.failures(key) == self.failures.get(key, 0)


QueueModel.TestCase.settings = settings(max_examples=200, deadline=None)
TestQueue = QueueModel.TestCase


def test_a_time_that_an_earlier_one_came_before_does_not_come_back() -> None:
    queue = WorkQueue()
    queue.add(ORDERS, 10.0)
    queue.add(ORDERS, 5.0)
    assert queue.take(5.0) == ORDERS
    queue.done(ORDERS, due=30.0)
    assert queue.take(29.0) is None
    assert queue.take(30.0) == ORDERS


def while_waiting(queue: WorkQueue, at_most: float, act: Callable[[], None]) -> None:
    """Do something while a thread waits; returns once its wait is over."""
    over = Event()

    def wait() -> None:
        queue.wait(0.0, at_most)
        over.set()

    Thread(target=wait, daemon=True).start()

    def is_over() -> bool:
        act()
        return over.wait(0.02)

    until(is_over)


def test_a_wait_ends_when_a_stream_is_added() -> None:
    queue = WorkQueue()
    while_waiting(queue, 600.0, lambda: queue.add(ORDERS, 0.0))


def test_a_wait_ends_when_a_stream_is_given_back() -> None:
    queue = WorkQueue()
    queue.add(ORDERS, 0.0)
    assert queue.take(0.0) == ORDERS
    given_back: list[Key] = []

    def give_back() -> None:
        if not given_back:
            queue.done(ORDERS, due=0.0)
            given_back.append(ORDERS)

    while_waiting(queue, 600.0, give_back)


def test_a_wait_for_what_is_due_does_not_wait() -> None:
    queue = WorkQueue()
    queue.add(ORDERS, 5.0)
    ended = Event()

    def wait() -> None:
        queue.wait(6.0, 600.0)
        ended.set()

    Thread(target=wait, daemon=True).start()
    until(ended.is_set)
