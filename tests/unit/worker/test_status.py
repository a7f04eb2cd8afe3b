"""Degraded reasons: kept beside readiness, states until they end and events for a day."""

from datetime import UTC, datetime

import pytest

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.worker import Phase
from dedupe_worker.status import Degradations, Degraded, WorkerState
from tests.unit.crds.manifests import MINIMAL
from tests.unit.worker.still_clock import StillClock

DAY = 24 * 3600.0


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def degradations(clock: StillClock) -> Degradations:
    return Degradations(clock)


def listed(degradations: Degradations) -> list[tuple[str, int]]:
    return [(each.reason, each.count) for each in degradations.current()]


def test_an_event_is_listed_for_a_day_after_its_last_report(
    degradations: Degradations, clock: StillClock
) -> None:
    degradations.record(Degraded.MISSING_IDS, "3 records", 3)
    clock.sleep(DAY - 1)
    degradations.record(Degraded.MISSING_IDS, "4 records", 1)
    clock.sleep(DAY - 1)
    assert listed(degradations) == [("MissingIds", 4)]
    clock.sleep(1)
    assert listed(degradations) == []


def test_a_state_is_listed_until_it_ends(degradations: Degradations, clock: StillClock) -> None:
    for _ in range(3):
        degradations.hold(Degraded.WINDOW_SHORTENED, "one hour")
        clock.sleep(DAY)
    assert listed(degradations) == [("WindowShortened", 1)]
    degradations.clear(Degraded.WINDOW_SHORTENED)
    assert listed(degradations) == []
    degradations.hold(Degraded.WINDOW_SHORTENED, "two hours")
    assert listed(degradations) == [("WindowShortened", 2)]


def test_the_last_message_and_both_times_are_shown(
    degradations: Degradations, clock: StillClock
) -> None:
    degradations.record(Degraded.INPUT_EXPIRED, "first")
    clock.sleep(60)
    degradations.record(Degraded.INPUT_EXPIRED, "second")
    (shown,) = degradations.current()
    assert shown.message == "second"
    assert shown.first_seen == datetime.fromtimestamp(1_000, UTC)
    assert shown.last_seen == datetime.fromtimestamp(1_060, UTC)


def test_what_was_never_reported_can_be_cleared(degradations: Degradations) -> None:
    degradations.clear(Degraded.INPUT_EXPIRED)
    assert listed(degradations) == []


def test_a_window_is_reported_while_it_is_shortened(clock: StillClock) -> None:
    state = WorkerState(DedupeStream.model_validate(MINIMAL), 0, clock)
    short = state.window.model_copy(update={"healthy": False, "truncated": True})
    for window, reasons in ((short, ["WindowShortened"]), (short, ["WindowShortened"])):
        state.window = window
        assert [each.reason for each in state.status().degraded] == reasons
    state.window = short.model_copy(update={"healthy": True})
    assert state.status().degraded == []


def test_a_degraded_worker_stays_ready(clock: StillClock) -> None:
    worker_state = WorkerState(DedupeStream.model_validate(MINIMAL), 0, clock)
    worker_state.set_phase(Phase.RUNNING)
    worker_state.degradations.record(Degraded.MISSING_IDS, "1 record")
    status = worker_state.status()
    assert status.ready
    assert [each.reason for each in status.degraded] == ["MissingIds"]
