"""The broker is killed under routers, which continue when it is back."""

import os
import random
import signal
from collections.abc import Callable, Iterator

import pytest

from dedupe_local.servers.kafka import EmbeddedBroker
from tests.faults.seed import SEED
from tests.support.checker.routing import judge_routing
from tests.support.patience import wait_for
from tests.support.processes.routers import RoutedStream, Routers
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., RoutedStream]

ROUND = 3_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Run a broker that this test may kill."""
    with EmbeddedBroker(tmp_path_factory.mktemp("mortal-broker")) as running:
        yield running


@pytest.mark.matrix  # test_broker.py, and the simulation of routers
@pytest.mark.timeout(600)
def test_a_broker_that_is_killed_costs_no_record_and_brings_none_twice(
    routed_streams: CreateStream, routers: Routers, broker: EmbeddedBroker
) -> None:
    rng = random.Random(SEED)
    stream = routed_streams(inputs=(3,), partitions=4)
    (raw,) = stream.inputs
    both = [routers.start(stream, number) for number in range(2)]
    for number in range(3):
        stream.send_to(raw, retries(SEED, ROUND, partitions=3, start=number * ROUND))
        goal = number * ROUND + rng.randrange(1, ROUND)
        wait_for(
            lambda goal=goal: sum(stream.routed()[raw].values()) >= goal,  # type: ignore[misc] # bound now
            f"{goal} records are routed",
        )
        os.kill(broker.pid, signal.SIGKILL)
        wait_for(lambda: not broker.running, "the broker is gone")
        for router in both:
            router.wait_until(
                lambda router=router: not router.status().ready,  # type: ignore[misc] # bound now
                "it says that the broker is away",
            )
        broker.start()
    stream.wait_until_routed(deadline_seconds=180)
    verdict = judge_routing(stream.raws(), stream.raw())
    verdict.assert_exactly_once()
    assert verdict.expected == 3 * ROUND
    for router in both:
        router.wait_until_ready()
