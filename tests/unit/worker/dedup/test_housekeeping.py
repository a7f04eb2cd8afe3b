"""The work between two batches: when each part of it is done."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dedupe_crds.spec.stream import DedupeStream
from dedupe_worker.dedup.housekeeping import Housekeeping
from dedupe_worker.status import WorkerState
from dedupe_worker.store.rocksdb import Store
from tests.unit.crds.manifests import MINIMAL
from tests.unit.worker.still_clock import StillClock
from tests.unit.worker.stores import open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path)
    yield opened
    opened.close()


class Watched:
    """The housekeeping of a store, on a clock that stands still between two calls."""

    def __init__(self, store: Store) -> None:
        self.clock = StillClock()
        self.state = WorkerState(DedupeStream.model_validate(MINIMAL), 0, self.clock)
        self.done: list[str] = []
        self.housekeeping = Housekeeping(
            store,
            self.state,
            self.clock,
            alert_below=timedelta(),
            run_commands=lambda: self.done.append("commands"),
            check_topics=lambda: self.done.append("topics"),
        )

    def after(self, seconds: float, *, in_transaction: bool = False) -> list[str]:
        """Return the actions of the housekeeping some seconds later."""
        self.clock.sleep(seconds)
        self.done.clear()
        self.housekeeping.run(in_transaction=in_transaction)
        return self.done


def test_topics_are_checked_every_ten_seconds_and_commands_run_each_time(store: Store) -> None:
    watched = Watched(store)
    assert watched.after(0) == ["commands", "topics"]
    assert watched.after(9) == ["commands"]
    assert watched.after(1) == ["commands", "topics"]


def test_nothing_touches_the_store_within_a_transaction(store: Store) -> None:
    watched = Watched(store)
    store.age = lambda _: pytest.fail("aged")  # type: ignore[method-assign, assignment]
    store.refill = lambda _: pytest.fail("refilled")  # type: ignore[method-assign, assignment]
    assert watched.after(20, in_transaction=True) == ["topics"]


def test_the_status_of_the_window_is_taken_every_second(store: Store) -> None:
    watched = Watched(store)
    watched.after(0)
    shown = watched.state.window
    watched.after(0.5)
    assert watched.state.window is shown
    watched.after(0.5)
    assert watched.state.window is not shown
