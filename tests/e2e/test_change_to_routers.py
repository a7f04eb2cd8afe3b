"""A stream without routers gets them on a cluster, while records come and pods are killed."""

import random
import time
from collections.abc import Iterator
from threading import Event

import pytest

from dedupe_crds.status.growth import GrowthStatus, GrowthStep
from dedupe_crds.status.stream import ConditionStatus
from tests.cluster.chart import NAMESPACE
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.plugin import Plugin
from tests.e2e.support.routed_stream import with_routers
from tests.e2e.support.scene import Scene
from tests.e2e.support.stream import ClusterStream
from tests.e2e.test_growth import BY_FORCE, ENOUGH, ID, OPERATOR, ids, wait_until_grown
from tests.faults.seed import SEED
from tests.support.checker.record import Message
from tests.support.traffic.traffic import PacedProducer

BEFORE, AFTER = 3, 5
FIRST = 4_000
PER_SECOND = 200.0


def home(raw: bytes) -> int:
    """The input partition of an id, as long as its producers partition by it."""
    return sum(raw) % BEFORE


def to(partition: int, raw: bytes) -> Message:
    return Message(partition, None, b"order", (("id", raw),))


def traffic(seen: list[bytes], anywhere: Event) -> Iterator[Message]:
    """New ids, each again soon after, and ids from before; at last to any partition."""
    rng = random.Random(SEED + 1)
    recent: list[bytes] = []
    for raw in ids(SEED + 2, ENOUGH):
        recent = [*recent[-50:], raw]
        for each in (raw, rng.choice(recent), rng.choice(seen)):
            yield to(rng.randrange(BEFORE) if anywhere.is_set() else home(each), each)


def claims(stream: ClusterStream) -> dict[int, str | None]:
    return {each.partition: each.persistent_volume_claim for each in stream.status().partitions}


@pytest.mark.matrix  # tests/faults/test_change_in_place.py, and test_growth.py
@pytest.mark.alone
def test_a_stream_gets_routers_under_traffic_whatever_is_killed(
    place: Scene, kubectl: Kubectl
) -> None:
    direct = place.stream("direct", partitions=BEFORE, id={"from": "Header", "name": "id"})
    direct.apply()
    direct.wait_until_ready()
    seen, rng, anywhere = ids(SEED, FIRST), random.Random(SEED), Event()
    direct.send([to(home(raw), raw) for raw in seen])
    direct.wait_until_passed()
    volumes = claims(direct)

    stream = with_routers(direct, AFTER)
    rate = PacedProducer(
        stream.bootstrap_servers,
        direct.input_topic,
        traffic(seen, anywhere),
        messages_per_second=PER_SECOND,
    )
    with rate:
        began = time.monotonic()
        stream.patch(repartition={"partitions": AFTER, "routers": {"replicas": 2}})
        stream.wait_for_events("GrowthStarted")
        shown = Plugin(place.cluster, place.namespace)("status", stream.name)
        place.kubectl("delete", "pod", stream.pod_name(0), *BY_FORCE)
        kubectl.within(NAMESPACE)("delete", *OPERATOR, "--wait=false")
        assert f"Change to routers from {BEFORE} to {AFTER} partitions" in shown
        assert "the stream passes no message" in shown
        # A worker that still reads its input partition would pass a copy from another one.
        stream.wait_until(
            lambda: (found := stream.status().growth) and found.step is not GrowthStep.HANDING_OVER,
            "all workers have handed over",
        )
        anywhere.set()
        wait_until_grown(stream)
        print(f"change to routers: done after {time.monotonic() - began:.1f} s, kills included")
    assert 0 < rate.delivered < ENOUGH

    stream.wait_until_rolled_out()
    stream.wait_for_routers(2)
    stream.wait_for_condition("Growing", ConditionStatus.FALSE)
    stream.wait_for_events("GrowthFinished")
    # Each of the first ids once more, in any partition.
    stream.send_to(direct.input_topic, [to(rng.randrange(BEFORE), raw) for raw in seen])
    stream.judge(ID)
    assert {record.partition for record in stream.clean()} == set(range(AFTER))
    assert stream.status().growth == GrowthStatus(
        epoch=1,
        before=BEFORE,
        partitions=AFTER,
        adds_routers=True,
        step=GrowthStep.DONE,
        done=AFTER,
        total=AFTER,
    )
    now = claims(stream)
    assert {each: now[each] for each in volumes} == volumes, "the old partitions keep their volumes"
    assert len(now) == AFTER
