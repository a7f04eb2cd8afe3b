"""A worker that is asked to stop ends as stopped, whatever it does at that moment."""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from threading import Event

import pytest

from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.worker import Phase
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.status import WorkerState
from dedupe_worker.store.rocksdb import Store
from dedupe_worker.supervisor import Supervisor
from tests.simulation.kafka.stream_world import StreamWorld, values, with_value

MOMENTS = 75
"""The calls and waits of a start, and some of the running loop."""

IsTime = Callable[[WorkerState], bool]


@pytest.fixture
def world(tmp_path: Path) -> StreamWorld:
    return StreamWorld(tmp_path, topic_ids=True)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each opening, flush and close of a store is added."""
    found: list[str] = []

    def watch(name: str, call: Callable[..., None]) -> None:
        def watched(*arguments: object, **options: object) -> None:
            found.append(name)
            call(*arguments, **options)

        monkeypatch.setattr(Store, call.__name__, watched)

    watch("open", Store.__init__)
    watch("flush", Store.flush)
    watch("close", Store.close)
    return found


def run_until(
    world: StreamWorld, is_time: IsTime, **spec: object
) -> tuple[ExitCode, Phase, str | None, set[str]]:
    """Run a worker, and stop it at the first call or wait at which it is time.

    Return its exit code, and its last phase, reason and errors.
    """
    stop = Event()

    def look(_: object = None) -> None:
        if not stop.is_set() and is_time(state):
            stop.set()

    factory = world.factory(None, look, **spec)
    state = factory.worker_state
    world.clock.at_each_wait = look
    code = Supervisor(factory, CommandQueue(), stop).run()
    world.clock.at_each_wait = lambda: None
    last = state.status()
    return code, last.phase, last.reason, set(state.errors)


def at_moment(number: int) -> IsTime:
    moments = count(1)
    return lambda _: next(moments) >= number


@pytest.mark.parametrize(("topic_ids", "delivery"), [(True, "ExactlyOnce"), (False, "AtLeastOnce")])
def test_a_stop_at_any_moment_is_no_failure(
    tmp_path: Path, ends: list[str], topic_ids: bool, delivery: str
) -> None:
    """On a new volume at first, then on a store that knows how far it has read."""
    world = StreamWorld(tmp_path, topic_ids=topic_ids)
    sent = values("v", 2 * MOMENTS)
    moments = [*range(1, MOMENTS + 1), *range(MOMENTS, 0, -1)]
    for moment, value in zip(moments, sent, strict=True):
        world.write(value, value)
        ends.clear()
        found = run_until(world, at_moment(moment), delivery=delivery)
        assert found == (ExitCode.OK, Phase.STOPPING, None, set()), moment
        assert ends[-1:] in ([], ["close"]), moment
        # A store may be closed before its session has it: nothing is written to it until then.
        assert ends[-2:] in ([], ["flush", "close"], ["open", "close"]), moment
    world.run(delivery=delivery)
    assert world.clean() == sent


def test_a_stop_while_a_request_has_no_answer_is_no_failure(world: StreamWorld) -> None:
    world.cluster.leader_away("clean", 0, 1_000)
    assert run_until(world, after(world, 5)) == (ExitCode.OK, Phase.STOPPING, None, set())


def test_a_stop_during_the_take_over_is_no_failure(world: StreamWorld) -> None:
    world.cluster.coordinator_away(1_000)
    assert run_until(world, after(world, 5)) == (ExitCode.OK, Phase.STOPPING, None, set())


def test_a_stop_while_another_producers_transaction_is_open_is_no_failure(
    world: StreamWorld,
) -> None:
    """What the worker waited for stays counted."""
    world.cluster.begin_foreign("other", 1_000.0).write("clean", 0, [with_value("a")])
    found = run_until(world, after(world, 5))
    assert found == (ExitCode.OK, Phase.STOPPING, None, {"OpenTransaction"})


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.STARTING])
def test_a_failure_before_a_stop_stays_reported(world: StreamWorld, phase: Phase) -> None:
    """Also in the session after it, which has not got further yet."""
    world.cluster.leader_away("clean", 0, 1_000)
    found = run_until(world, lambda state: bool(state.errors) and state.phase is phase)
    reason = "BrokerUnavailable"
    assert found == (ExitCode.OK, Phase.STOPPING, reason, {reason})


def test_a_failure_that_the_worker_is_past_is_not_reported(world: StreamWorld) -> None:
    world.cluster.leader_away("clean", 0, 20)
    found = run_until(world, lambda state: state.phase is Phase.RUNNING)
    assert found == (ExitCode.OK, Phase.STOPPING, None, {"BrokerUnavailable"})


def test_a_failure_whose_cause_is_being_looked_for_stays_reported(world: StreamWorld) -> None:
    """The request that a stop cuts short would only have explained it."""
    world.cluster.coordinator_away(1_000)
    code, phase, reason, _ = run_until(world, after(world, 20), delivery="AtLeastOnce")
    assert (code, phase, reason) == (ExitCode.OK, Phase.STOPPING, "BrokerUnavailable")


def test_what_was_read_before_a_stop_is_committed(world: StreamWorld) -> None:
    """Also if the stop cuts short a look at the topics, within an open transaction."""
    sent = values("v", 100)
    world.write(*sent)
    tuning = {"tuning": {"maxBatchRecords": 10}}
    run_until(world, lambda state: state.tally.consumed > 0, worker=tuning)
    assert world.clean() == sent[:10]


def test_a_commit_that_fails_after_a_stop_is_reported(world: StreamWorld) -> None:
    """Kafka's failure is not the stop's."""
    world.write(*values("v", 3))

    def is_time(state: WorkerState) -> bool:
        if state.tally.consumed:
            world.cluster.coordinator_away(1_000)
        return bool(state.tally.consumed)

    code, phase, reason, _ = run_until(world, is_time)
    assert (code, phase, reason) == (ExitCode.OK, Phase.STOPPING, "BrokerUnavailable")


def after(world: StreamWorld, seconds: float) -> IsTime:
    end = world.clock.monotonic() + seconds
    return lambda _: world.clock.monotonic() >= end
