"""Follow-up of a check of the topics by a worker behind routers."""

from types import SimpleNamespace
from typing import Any

from dedupe_worker.kafka.follow_up import follow_up
from dedupe_worker.origins import Origins
from dedupe_worker.status import Degradations
from tests.unit.worker.still_clock import StillClock


def test_few_numbers_left_for_origins_are_told_while_the_worker_runs() -> None:
    clock, origins = StillClock(), Origins()
    state = SimpleNamespace(degradations=Degradations(clock))
    topic, nothing = SimpleNamespace(name="between"), SimpleNamespace(committed=None)
    reader = SimpleNamespace(end_offset=lambda: 0, next_offset=0)
    parts: list[Any] = [None, topic, None, reader, nothing, None]
    follow = follow_up(
        *parts,
        partition=0,
        servers="",
        origins=origins,
        worker_state=state,  # type: ignore[arg-type] # a stand-in
        clock=clock,
    )
    watch: Any = SimpleNamespace(stable_end=0, is_described=False)

    origins.number_of(("orders", 2**14 - 1))
    follow(watch)
    assert not state.degradations.current()
    origins.number_of(("returns", 2**13 - 1))
    follow(watch)
    assert [each.reason for each in state.degradations.current()] == ["FewOriginsLeft"]
