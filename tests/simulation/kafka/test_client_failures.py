"""What the client library does not name ends no worker, at whatever call it comes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dedupe_worker.status import WorkerState
from tests.simulation.kafka.calls import Call
from tests.simulation.kafka.stream_world import StreamWorld, values

CALLS = 70
"""The calls of a start, before and after their effect, and some of the running loop."""
SENT = values("sent", 3)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("delivery", ["ExactlyOnce", "AtLeastOnce"])
def test_an_unknown_failure_of_a_call_has_a_reason_and_the_next_session_passes_all(
    tmp_path: Path, delivery: str
) -> None:
    named = 0
    for number in range(1, CALLS):
        world = StreamWorld(tmp_path / str(number), topic_ids=True)
        world.write(*SENT, *SENT)
        calls = iter(range(1, number + 1))

        def fail(_: Call, calls: Iterator[int] = calls, number: int = number) -> None:
            if next(calls, None) == number:
                raise SystemError("returned NULL without setting an exception")

        states: list[WorkerState] = []
        world.run_with(fail, {world.seconds - 1: states.append}, delivery=delivery)
        named += states[0].errors["ClientFailed"]
        assert sorted(set(world.clean())) == SENT, number
        if delivery == "ExactlyOnce":
            assert world.clean() == SENT, number
    assert named >= CALLS // 2
