"""Sizes by the number of ids, while a schedule runs and not after it."""

from pathlib import Path

from tests.simulation.schedule.input import Item, Send
from tests.simulation.schedule.settings import Settings
from tests.simulation.schedule.steps import Schedule, Step, When
from tests.simulation.sizes import counted_sizes
from tests.simulation.world import World
from tests.unit.worker.stores import open_store, random_ids, remember


def size_of_ten_ids(path: Path) -> int:
    store = open_store(path)
    remember(store, random_ids(1, 10), position=1)
    [generation] = store.generations()
    store.close()
    return generation.size_bytes


def test_ten_ids_are_of_ten_times_the_size(tmp_path: Path) -> None:
    with counted_sizes(1000):
        assert size_of_ten_ids(tmp_path) == 10_000


def test_a_store_that_is_opened_after_a_schedule_is_of_its_real_size(tmp_path: Path) -> None:
    before = size_of_ten_ids(tmp_path / "before")
    steps = (Step(When(0, seconds=1.0), 0, Send((Item(1),))),)
    World(Schedule(1, Settings(), steps), tmp_path / "world").run()
    assert size_of_ten_ids(tmp_path / "after") == before
