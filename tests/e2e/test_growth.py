"""A stream with routers gets more partitions on a cluster, while records come and pods are killed."""

import random
from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

import pytest

from dedupe_crds.status.growth import GrowthStatus, GrowthStep
from dedupe_crds.status.stream import ConditionStatus
from tests.cluster.chart import NAMESPACE
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.plugin import Plugin
from tests.e2e.support.routed_stream import RoutedClusterStream, routed_stream
from tests.e2e.support.scene import Scene
from tests.faults.seed import SEED
from tests.support.checker.id_sources import header_id
from tests.support.checker.record import Message
from tests.support.traffic.traffic import PacedProducer

ID = header_id("id")
INPUTS = (4, 2)
BEFORE, AFTER = 4, 6
FIRST = 4_000
PER_SECOND = 200.0
ENOUGH = 100_000  # for the growth to be over first
OPERATOR = ("pod", "--selector", "app.kubernetes.io/component=operator")
BY_FORCE = ("--force", "--grace-period=0")


def ids(seed: int, count: int) -> list[bytes]:
    rng = random.Random(seed)
    return [str(UUID(int=rng.getrandbits(128), version=4)).encode() for _ in range(count)]


def message(rng: random.Random, raw: bytes, partitions: int) -> Message:
    return Message(rng.randrange(partitions), None, b"order", (("id", raw),))


def traffic(seen: list[bytes]) -> Iterator[Message]:
    """New ids, each again soon after, and between them ids that came before the growth."""
    rng = random.Random(SEED + 1)
    recent: list[bytes] = []
    for raw in ids(SEED + 2, ENOUGH):
        recent = [*recent[-50:], raw]
        for each in (raw, rng.choice(recent), rng.choice(seen)):
            yield message(rng, each, INPUTS[0])


def growth(stream: RoutedClusterStream) -> GrowthStatus | None:
    return stream.status().growth


def wait_until_grown(stream: RoutedClusterStream) -> None:
    def grown() -> bool:
        found = growth(stream)
        return found is not None and found.step is GrowthStep.DONE

    stream.wait_until(grown, "the growth is done")


def router_uids(stream: RoutedClusterStream) -> dict[str, str]:
    return {name: pod["metadata"]["uid"] for name, pod in stream.router_pods().items()}


@pytest.mark.alone
def test_a_stream_grows_under_traffic_whatever_is_killed(place: Scene, kubectl: Kubectl) -> None:
    stream = routed_stream(
        place,
        "growing",
        inputs=INPUTS,
        partitions=BEFORE,
        routers=2,
        id={"from": "Header", "name": "id"},
    )
    stream.apply()
    stream.wait_until_ready()
    stream.wait_for_routers(2)
    seen, rng = ids(SEED, FIRST), random.Random(SEED)
    stream.send_to(stream.inputs[1], [message(rng, raw, INPUTS[1]) for raw in seen])
    workers, routers = stream.uids("pods"), router_uids(stream)
    assert (len(workers), len(routers)) == (BEFORE, 2)

    rate = PacedProducer(
        stream.bootstrap_servers, stream.inputs[0], traffic(seen), messages_per_second=PER_SECOND
    )
    with rate:
        stream.patch(repartition={"partitions": AFTER})
        stream.wait_for_events("GrowthStarted")
        shown = Plugin(place.cluster, place.namespace)("status", stream.name)
        place.kubectl("delete", "pod", f"{stream.name}-router-0", *BY_FORCE)
        place.kubectl("delete", "pod", stream.pod_name(0), *BY_FORCE)
        kubectl.within(NAMESPACE)("delete", *OPERATOR, "--wait=false")
        started = growth(stream)
        assert started is not None
        assert started.step is not GrowthStep.DONE, "they were killed too late"
        assert started.line.split(":")[0] in shown
        wait_until_grown(stream)
    assert 0 < rate.delivered < ENOUGH

    stream = replace(stream, partitions=AFTER)
    stream.wait_until_rolled_out()
    stream.wait_for_routers(2)
    stream.wait_for_condition("Growing", ConditionStatus.FALSE)
    stream.wait_for_events("GrowthFinished")
    # Each of the first ids once more: a third of them has another worker now.
    stream.send_to(stream.inputs[1], [message(rng, raw, INPUTS[1]) for raw in seen])
    stream.judge(ID)
    assert {record.partition for record in stream.clean()} == set(range(AFTER))

    assert growth(stream) == GrowthStatus(
        epoch=1, before=BEFORE, partitions=AFTER, step=GrowthStep.DONE, done=2, total=2
    )
    assert stream.routers().epoch == 1
    killed = {f"Pod/{stream.pod_name(0)}", f"{stream.name}-router-0"}
    after, routers_after = stream.uids("pods"), router_uids(stream)
    for name in workers.keys() - killed:
        assert after[name] == workers[name], f"{name} was restarted by the growth"
    for name in routers.keys() - killed:
        assert routers_after[name] == routers[name], f"{name} was restarted by the growth"
    assert len(after) == AFTER
