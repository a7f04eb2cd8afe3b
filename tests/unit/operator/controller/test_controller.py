"""Threads that look at streams: each stream by one at a time, and every change in the end."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from dedupe_operator import metrics
from dedupe_operator.controller import controller as module
from dedupe_operator.controller.controller import Controller
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.errors import KubernetesError, LostLeadership
from tests.support.patience import HANG_SECONDS, pace
from tests.unit.operator.waits import until

ORDERS, OTHERS = Key("shop", "orders"), Key("shop", "others")


class FakeLook:
    """Counts looks, and does what a test asks for in them."""

    def __init__(self) -> None:
        self.looks: Counter[Key] = Counter()
        self.at: list[float] = []
        self.act: Callable[[Key], float | None] = lambda _key: None
        self._now: Counter[Key] = Counter()
        self.overlapped = False

    def __call__(self, key: Key) -> float | None:
        self._now[key] += 1
        self.overlapped |= self._now[key] > 1
        self.at.append(time.monotonic())
        try:
            return self.act(key)
        finally:
            self._now[key] -= 1
            self.looks[key] += 1


@pytest.fixture
def look() -> FakeLook:
    return FakeLook()


@pytest.fixture
def lost() -> threading.Event:
    return threading.Event()


@pytest.fixture
def controller(
    look: FakeLook, lost: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Controller]:
    monkeypatch.setattr(module, "_DEBOUNCE_SECONDS", 0.01)
    monkeypatch.setattr(module, "_LONGEST_WAIT_SECONDS", 0.05)
    running = Controller(look, threads=4, lost=lost.set)
    running.start()
    yield running
    running.stop()


def test_a_changed_stream_is_looked_at_once(
    look: FakeLook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_DEBOUNCE_SECONDS", 0.05)
    monkeypatch.setattr(module, "_LONGEST_WAIT_SECONDS", 0.05)
    running = Controller(look, threads=4, lost=lambda: None)
    asked_at = time.monotonic()
    for _ in range(5):
        running.due(ORDERS)
    running.start()
    until(lambda: look.looks[ORDERS])
    pace(0.1)
    running.stop()
    assert look.looks == {ORDERS: 1}
    assert look.at[0] - asked_at >= 0.05


def test_a_stream_is_never_looked_at_twice_at_a_time_and_no_change_is_lost(
    controller: Controller, look: FakeLook
) -> None:
    version = 0
    seen = -1

    def slow(_key: Key) -> None:
        nonlocal seen
        seen = version
        pace(0.003)

    look.act = slow
    for _ in range(100):
        version += 1
        controller.due(ORDERS)
        pace(0.001)
    until(lambda: seen == 100)
    assert not look.overlapped


def test_a_change_during_a_look_calls_for_another(controller: Controller, look: FakeLook) -> None:
    going_on, go_on = threading.Event(), threading.Event()

    def held(_key: Key) -> None:
        going_on.set()
        assert go_on.wait(HANG_SECONDS)

    look.act = held
    controller.due(ORDERS)
    assert going_on.wait(HANG_SECONDS)
    controller.due(ORDERS)
    go_on.set()
    until(lambda: look.looks[ORDERS] == 2)


def test_a_slow_stream_does_not_keep_the_others(controller: Controller, look: FakeLook) -> None:
    go_on = threading.Event()

    def slow(key: Key) -> None:
        if key == ORDERS:
            go_on.wait(HANG_SECONDS)

    look.act = slow
    controller.due(ORDERS)
    controller.due(OTHERS)
    until(lambda: look.looks[OTHERS])
    assert not look.looks[ORDERS]
    go_on.set()
    until(lambda: look.looks[ORDERS])


def test_a_look_says_when_the_next_is_due(controller: Controller, look: FakeLook) -> None:
    look.act = lambda _key: 0.05
    controller.due(ORDERS)
    until(lambda: look.looks[ORDERS] >= 4)
    gaps = [later - earlier for earlier, later in zip(look.at, look.at[1:], strict=False)]
    assert min(gaps) >= 0.04


def test_a_stream_that_is_gone_is_not_looked_at_any_more(
    controller: Controller, look: FakeLook
) -> None:
    controller.due(ORDERS)
    until(lambda: look.looks[ORDERS])
    until(lambda: controller.idle_seconds == 0.0)
    assert metrics.STREAMS.collect()


def noted_waits(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list that gets each wait after a failure: how long it was in fact is up to the machine."""
    waits: list[float] = []
    backoff = controller._backoff  # noqa: SLF001

    def noted(key: Key) -> float:
        waits.append(backoff(key))
        return waits[-1]

    monkeypatch.setattr(controller, "_backoff", noted)
    return waits


@pytest.mark.parametrize("error", [KubernetesError("Forbidden", "no"), ValueError("a bug")])
def test_a_look_that_fails_is_tried_again_ever_more_slowly(
    controller: Controller,
    look: FakeLook,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "_FIRST_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(module, "_LONGEST_RETRY_SECONDS", 0.2)
    waits = noted_waits(controller, monkeypatch)

    def fail(_key: Key) -> float:
        raise error

    look.act = fail
    controller.due(ORDERS)
    until(lambda: look.looks[ORDERS] >= 5)
    gaps = [later - earlier for earlier, later in zip(look.at, look.at[1:], strict=False)]
    for gap, at_least in zip(gaps, [0.045, 0.09, 0.18, 0.18], strict=False):
        assert gap >= at_least
    assert waits[:4] == pytest.approx([0.05, 0.1, 0.2, 0.2])
    assert "shop/orders" in caplog.text
    assert str(error) in caplog.text


def test_a_success_begins_the_retries_anew(
    controller: Controller, look: FakeLook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_RETRY_SECONDS", 0.02)
    waits = noted_waits(controller, monkeypatch)

    def fail_but_every_third(_key: Key) -> float:
        if look.looks[ORDERS] % 3 == 2:
            return 0.0
        raise KubernetesError("Conflict", "again")

    look.act = fail_but_every_third
    controller.due(ORDERS)
    until(lambda: look.looks[ORDERS] >= 15)
    assert max(waits) == pytest.approx(0.04)


def test_a_lost_leadership_is_told_and_looks_no_more(
    controller: Controller, look: FakeLook, lost: threading.Event
) -> None:
    def lose(_key: Key) -> float:
        raise LostLeadership("another one")

    look.act = lose
    controller.due(ORDERS)
    assert lost.wait(HANG_SECONDS)
    pace(0.1)
    assert look.looks[ORDERS] == 1


def test_a_stop_waits_for_the_look_in_progress(look: FakeLook) -> None:
    running = Controller(look, threads=1, lost=lambda: None)
    begun = threading.Event()

    def slow(_key: Key) -> None:
        begun.set()
        pace(0.2)

    look.act = slow
    running.start()
    running.due(ORDERS)
    assert begun.wait(HANG_SECONDS)
    running.stop()
    assert look.looks[ORDERS] == 1


def test_it_is_idle_for_as_long_as_no_look_ends_while_there_are_streams(
    look: FakeLook,
) -> None:
    running = Controller(look, threads=1, lost=lambda: None)
    assert running.idle_seconds == 0.0
    running.due(ORDERS)
    pace(0.05)
    assert running.idle_seconds >= 0.05
