"""Pods that are evicted or killed, while messages come: their workers go on where they were."""

import time
from collections.abc import Iterator

import pytest

from dedupe_crds.status.stream import Condition
from tests.cluster.environment import Environment
from tests.e2e.support.faults import Before, evict, is_ready, pod_of, starts_of, use_up_memory
from tests.e2e.support.kubectl import KubectlFailed
from tests.e2e.support.live_load import LiveLoad
from tests.e2e.support.scene import scene
from tests.e2e.support.stream import ClusterStream
from tests.faults.seed import SEED

LIMIT = {"limits": {"memory": "512Mi"}}


@pytest.fixture(scope="module")
def stream(
    release: Environment, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ClusterStream]:
    """A stream of two partitions that is ready."""
    directory = tmp_path_factory.mktemp("failover")
    with scene(release, "failover", directory, request) as place:
        made = place.stream("busy", partitions=2, worker={"resources": LIMIT})
        made.apply()
        made.wait_until_ready()
        yield made


def test_one_pod_of_a_stream_may_be_evicted_at_a_time(stream: ClusterStream) -> None:
    stream.wait_until_ready()
    before = Before.of(stream)
    with LiveLoad(stream, SEED + 11) as load:
        load.wait_until_filled()
        stream.wait_until(
            lambda: allowed_disruptions(stream) == 1, "the budget knows that all are ready"
        )
        began = time.monotonic()
        evict(stream, 1)
        with pytest.raises(KubectlFailed, match="disruption budget"):
            evict(stream, 0)
        before.wait_until_replaced(1)
        print(f"pod evicted: ready {time.monotonic() - began:.1f} s after")
        load.begin("it is back")
        load.wait_until_filled()
    before.assert_same_volumes()
    assert stream.starts()[1] == "Tail"
    assert pod_of(stream, 0)["metadata"]["uid"] in before.pods.values()
    load.judged()


def allowed_disruptions(stream: ClusterStream) -> int:
    [budget] = stream.children("poddisruptionbudgets")
    return int(budget["status"].get("disruptionsAllowed", 0))


@pytest.mark.matrix  # tests/unit/operator/decide/test_diagnosis.py
def test_a_worker_killed_for_its_memory_is_started_again_and_told_of(stream: ClusterStream) -> None:
    stream.wait_until_ready()
    before = Before.of(stream)
    starts = starts_of(pod_of(stream, 0))
    with LiveLoad(stream, SEED + 12) as load:
        load.wait_until_filled()
        began = time.monotonic()
        use_up_memory(stream.kubectl, stream.pod_name(0))
        stream.wait_until(lambda: starts_of(pod_of(stream, 0)) > starts, "it was started again")
        stream.wait_until(lambda: is_ready(pod_of(stream, 0)), "it is ready again")
        print(f"worker killed for memory: ready {time.monotonic() - began:.1f} s after")
        [container] = pod_of(stream, 0)["status"]["containerStatuses"]
        assert container["lastState"]["terminated"]["reason"] == "OOMKilled"
        # Started again once more it is made to wait a while, and each time longer: long enough to be seen.
        told = stream.wait_until(lambda: told_of_memory(stream), "it is told of")
        load.begin("it was killed again")
        stream.wait_until_ready()
        load.wait_until_filled()
    assert "spec.worker.resources.limits.memory" in told.message
    stream.wait_for_events("OutOfMemory")
    assert "OutOfMemory" in {one["reason"] for one in stream.events() if one["type"] == "Warning"}
    before.assert_same_volumes()
    assert stream.uids("pods") == before.pods
    load.judged()


def told_of_memory(stream: ClusterStream) -> Condition | None:
    """What the operator says of a worker killed for its memory; has it killed once more if it says nothing yet."""
    degraded = stream.condition("Degraded")
    if degraded and degraded.reason == "OutOfMemory":
        return degraded
    if is_ready(pod_of(stream, 0)):
        use_up_memory(stream.kubectl, stream.pod_name(0))
    return None
