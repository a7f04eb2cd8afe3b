"""Records that may have come after a failed fetch are told apart, and no others."""

import pytest

from dedupe_worker.kafka.fetch_failures import FetchFailures
from tests.unit.worker.still_clock import StillClock


class Fetching:
    """A client that shows whether its last fetch failed."""

    def __init__(self) -> None:
        self.clock, self.fetches = StillClock(), True
        self.failures = FetchFailures(lambda: self.fetches, self.clock.monotonic)

    def look(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        self.failures.look()

    def read(self, seconds: float = 0.1) -> bool:
        self.clock.sleep(seconds)
        return self.failures.before_these()


@pytest.fixture
def fetching() -> Fetching:
    fetching = Fetching()
    assert fetching.read(), "the first records of a session"
    return fetching


def test_nothing_is_checked_while_fetching_goes_on(fetching: Fetching) -> None:
    assert not any(fetching.read() for _ in range(100))
    for _ in range(100):
        fetching.look(0.25)
    assert not fetching.read()


def test_the_first_records_after_a_failure_are_checked_once(fetching: Fetching) -> None:
    fetching.fetches = False
    fetching.look(0.25)
    assert not fetching.read(), "these were fetched before it"
    fetching.fetches = True
    assert fetching.read()
    assert not fetching.read()


def test_a_failure_that_only_a_batch_shows_counts_for_the_next(fetching: Fetching) -> None:
    fetching.fetches = False
    assert not fetching.read()
    fetching.fetches = True
    assert fetching.read()


def test_who_did_not_look_for_long_may_have_missed_a_failure(fetching: Fetching) -> None:
    assert fetching.read(0.5)
    fetching.look(0.5)
    assert fetching.read()
    assert not fetching.read()


def test_after_a_long_time_and_during_a_failure_records_are_checked_now_and_then_again(
    fetching: Fetching,
) -> None:
    fetching.fetches = False
    assert fetching.read(0.6), "they may be of after an earlier failure"
    fetching.fetches = True
    assert fetching.read()
