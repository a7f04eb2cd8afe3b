"""Routers on a cluster: copies meet, and routers that are killed or taken away lose nothing."""

import random
from uuid import UUID

from dedupe_crds.status.stream import ConditionStatus
from tests.e2e.support.routed_stream import RoutedClusterStream, routed_stream
from tests.e2e.support.scene import Scene
from tests.faults.seed import SEED
from tests.support.checker.id_sources import header_id
from tests.support.checker.record import Message

ID = header_id("id")
INPUTS = (4, 2)
COUNT = 2_000


def scattered(seed: int, count: int, partitions: int) -> list[Message]:
    """Each id twice, without a key, in two partitions."""
    rng = random.Random(seed)
    ids = [str(UUID(int=rng.getrandbits(128), version=4)).encode() for _ in range(count)]
    copies = [
        Message(partition, None, b"order", (("id", raw),))
        for raw in ids
        for partition in rng.sample(range(partitions), 2)
    ]
    rng.shuffle(copies)
    return copies


def send(stream: RoutedClusterStream, batch: int) -> None:
    """Send a batch to all inputs; the same ids come in each."""
    for name, partitions in zip(stream.inputs, INPUTS, strict=True):
        stream.send_to(name, scattered(SEED + batch, COUNT, partitions))


def test_each_id_passes_once_whatever_becomes_of_routers(place: Scene) -> None:
    stream = routed_stream(
        place,
        "routed",
        inputs=INPUTS,
        partitions=3,
        routers=2,
        id={"from": "Header", "name": "id"},
    )
    stream.apply()
    stream.wait_until_ready()
    stream.wait_for_routers(2)
    assert sorted(stream.router_pods()) == [f"{stream.name}-router-{n}" for n in range(2)]
    workers = stream.uids("pods")
    assert len(workers) == 3
    send(stream, 0)
    assert stream.judge(ID).expected == COUNT
    found = stream.wait_until(
        lambda: status if (status := stream.routers()).inputs else None, "the status has inputs"
    )
    assert [each.topic for each in found.inputs] == sorted(stream.inputs)

    # Records arrive while a router is killed, and again while one is taken away.
    victim = f"{stream.name}-router-0"
    before = stream.router_pods()[victim]["metadata"]["uid"]
    send(stream, 1)
    place.kubectl("delete", "pod", victim, "--force", "--grace-period=0")
    send(stream, 2)
    assert stream.judge(ID).expected == 3 * COUNT
    stream.wait_until(
        lambda: (
            stream.router_pods().get(victim, {}).get("metadata", {}).get("uid", before) != before
        ),
        f"{victim} is another pod",
    )
    stream.wait_for_routers(2)

    stay = stream.router_pods()[victim]["metadata"]["uid"]
    stream.patch(repartition={"routers": {"replicas": 1}})
    send(stream, 3)
    stream.wait_for_routers(1)
    assert stream.judge(ID).expected == 4 * COUNT
    stream.wait_until(lambda: len(stream.router_pods()) == 1, "one router is left")
    assert stream.router_pods()[victim]["metadata"]["uid"] == stay, "it was not restarted"

    send(stream, 4)
    assert stream.judge(ID).expected == 5 * COUNT
    assert stream.uids("pods") == workers, "no worker was restarted"
    stream.wait_for_condition("Degraded", ConditionStatus.FALSE)
    stream.wait_until(
        lambda: all(each.lag_messages == 0 for each in stream.routers().inputs),
        "the status shows no lag",
    )
