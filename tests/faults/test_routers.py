"""Routers are killed, stopped and rebalanced during traffic: each record is routed once, in order."""

import random
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.faults.seed import SEED
from tests.support.checker.routing import judge_routing
from tests.support.crashes.crashing_router import RouterCrash, RouterStep
from tests.support.layers import matrix
from tests.support.patience import wait_for
from tests.support.processes.routers import RoutedStream, RouterProcess, Routers
from tests.support.traffic.traffic import PacedProducer, retries

CreateStream = Callable[..., RoutedStream]

INPUTS = (3, 2, 1)
RATE = 300.0
MOST_RECORDS = 200_000


@contextmanager
def traffic(stream: RoutedStream) -> Iterator[None]:
    """Send to all inputs meanwhile, the same ids to each."""
    with ExitStack() as senders:
        for name, partitions in zip(stream.inputs, INPUTS, strict=True):
            messages = retries(SEED, MOST_RECORDS, partitions=partitions, value_bytes=50)
            servers = stream.bootstrap_servers
            sender = PacedProducer(servers, name, messages, messages_per_second=RATE)
            senders.enter_context(sender)
        yield


def routed_records(stream: RoutedStream) -> int:
    return sum(offset for each in stream.routed().values() for offset in each.values())


def wait_for_progress(stream: RoutedStream, records: int, *, deadline_seconds: float = 90) -> None:
    """Wait until so many more records are routed."""
    goal = routed_records(stream) + records
    wait_for(
        lambda: routed_records(stream) >= goal,
        f"{records} more records are routed",
        deadline_seconds=deadline_seconds,
    )


def assert_routed_once(stream: RoutedStream) -> None:
    stream.wait_until_routed()
    verdict = judge_routing(stream.raws(), stream.raw())
    verdict.assert_exactly_once()
    assert verdict.expected > 500


@pytest.mark.timeout(600)  # the machine is busy with other tests
@pytest.mark.parametrize("kills", [5, matrix(20)])
def test_random_kills(routed_streams: CreateStream, routers: Routers, kills: int) -> None:
    rng = random.Random(SEED)
    stream = routed_streams(inputs=INPUTS, partitions=4)
    running = [routers.start(stream, number) for number in range(3)]
    with traffic(stream):
        for _ in range(kills):
            wait_for_progress(stream, rng.randrange(1, 400))
            victim = rng.randrange(3)
            running[victim].sigkill()
            if rng.random() < 0.5:  # else it comes back at once, before it is missed
                wait_for_progress(stream, rng.randrange(1, 400))
            running[victim] = routers.start(stream, victim)
    assert_routed_once(stream)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "step",
    [
        matrix(RouterStep.READ),
        RouterStep.PRODUCED,
        RouterStep.OFFSETS_SENT,
        matrix(RouterStep.COMMITTED),
    ],
)
def test_a_kill_at_each_step(
    routed_streams: CreateStream, routers: Routers, step: RouterStep
) -> None:
    stream = routed_streams(inputs=INPUTS, partitions=4)
    with traffic(stream):
        victim = routers.start(stream, 0, crash=RouterCrash(step, time=3))
        wait_for(lambda: victim.process.poll() is not None, "it has killed itself")
        assert victim.process.poll() == -signal.SIGKILL
        routers.start(stream, 0)
        wait_for_progress(stream, 300)
    assert_routed_once(stream)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", [RouterStep.READ, matrix(RouterStep.PRODUCED)])
def test_a_router_that_was_taken_for_dead_commits_nothing(
    routed_streams: CreateStream, routers: Routers, step: RouterStep
) -> None:
    stream = routed_streams(inputs=INPUTS, partitions=4)
    with traffic(stream):
        crash = RouterCrash(step, time=3, signal_number=signal.SIGSTOP)
        zombie = routers.start(stream, 0, crash=crash)
        wait_until_stopped(zombie)
        routers.start(stream, 1)
        # Only when the group has given its partitions away.
        wait_until_all_move(stream)
        wait_for_progress(stream, 300)
        zombie.process.send_signal(signal.SIGCONT)
        wait_for_progress(stream, 600)
        zombie.wait_until_ready()
    assert_routed_once(stream)


def wait_until_stopped(router: RouterProcess) -> None:
    """Wait until a router has stopped itself."""

    def is_stopped() -> bool:
        with open(f"/proc/{router.process.pid}/stat", encoding="ascii") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] == "T"

    wait_for(is_stopped, "it has stopped itself", explain=router.log)


def wait_until_all_move(stream: RoutedStream) -> None:
    """Wait until records of each partition of the inputs have been routed."""
    before = stream.routed()

    def all_moved() -> bool:
        now = stream.routed()
        places = [
            (name, n)
            for name, count in zip(stream.inputs, INPUTS, strict=True)
            for n in range(count)
        ]
        return all(now[name].get(n, 0) > before[name].get(n, 0) for name, n in places)

    wait_for(all_moved, "the other router reads all partitions", deadline_seconds=120)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rounds", [4, matrix(20)])
def test_members_join_and_leave(
    routed_streams: CreateStream, routers: Routers, rounds: int
) -> None:
    rng = random.Random(SEED)
    stream = routed_streams(inputs=INPUTS, partitions=4)
    running = [routers.start(stream, 0)]
    with traffic(stream):
        for _ in range(rounds):
            taken = {router.number for router in running}
            free = next(number for number in range(rounds) if number not in taken)
            running.append(routers.start(stream, free))
            wait_for_progress(stream, rng.randrange(200, 1500))
            leaver = running.pop(rng.randrange(len(running)))
            assert leaver.sigterm() == 0
    assert_routed_once(stream)
