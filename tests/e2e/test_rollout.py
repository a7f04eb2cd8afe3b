"""Changes that reach running workers: one partition after another, and back from a bad one."""

from collections.abc import Callable

import pytest

from dedupe_crds.status.stream import ConditionStatus, PartitionPhase
from tests.cluster.environment import Environment
from tests.e2e.support.kubectl import Kubectl, Object
from tests.e2e.support.pods import PodsWatched
from tests.e2e.support.stream import ClusterStream
from tests.faults.seed import SEED
from tests.support.traffic.traffic import order, retries

CreateStream = Callable[..., ClusterStream]

COUNT = 300
KAFKA_SECRET = "kafka"  # noqa: S105 # its name
NEW_REQUESTS = {"cpu": "20m", "memory": "192Mi"}
NO_IMAGE = "dedupestream/worker:never-built"


def test_a_change_rolls_one_partition_at_a_time_each_ready_before_the_next(
    release: Environment, streams: CreateStream
) -> None:
    stream = streams(partitions=3)
    stream.apply()
    stream.wait_until_ready()
    stream.send(retries(SEED, COUNT, partitions=3))

    with PodsWatched(release, stream) as watched:
        stream.patch(worker={"resources": {"requests": NEW_REQUESTS}})
        stream.wait_until_rolled_out(deadline_seconds=240)

    assert watched.replaced == [0, 1, 2]
    assert watched.most_unready == 1
    containers = [pod["spec"]["containers"][0] for pod in stream.children("pods")]
    assert [one["resources"]["requests"] for one in containers] == [NEW_REQUESTS] * 3
    stream.send(retries(SEED, COUNT, partitions=3))
    stream.judged()


def test_a_bad_image_stops_at_the_first_partition_and_is_mended_without_a_hand(
    streams: CreateStream,
) -> None:
    stream = streams(partitions=2)
    stream.apply()
    stream.wait_until_ready()
    [other] = stream.children("pods", partition=1)

    stream.patch(worker={"image": NO_IMAGE})
    told = stream.wait_for_condition("Ready", ConditionStatus.FALSE, reason="ImagePullFailed")
    held = stream.wait_for_condition("Progressing", ConditionStatus.FALSE)

    assert NO_IMAGE in told.message
    assert (held.reason, "partition 1" in held.message) == ("RolloutHeldBack", True)
    stream.send(order(SEED, number, partitions=2) for number in range(COUNT))
    wait_until_partition_passed(stream, 1)
    stream.wait_until(
        lambda: [one.ready for one in stream.status().partitions] == [False, True],
        "the other partition is ready",
    )

    stream.patch(worker={"image": None})
    stream.wait_until_rolled_out()

    assert stream.uids("pods")[f"Pod/{stream.pod_name(1)}"] == other["metadata"]["uid"]
    stream.judged()


@pytest.mark.matrix  # the restart of test_plugin.py
def test_a_restart_and_a_new_kafka_secret_each_replace_the_worker(
    release: Environment, streams: CreateStream, kubectl: Kubectl, namespace: str
) -> None:
    kubectl.within(namespace).apply(kafka_secret("socket.nagle.disable=false"))
    stream = streams(
        kafka={
            "bootstrapServers": release.kafka_bootstrap_in_cluster,
            "configSecretRef": {"name": KAFKA_SECRET},
        }
    )
    stream.apply()
    stream.wait_until_ready()

    before = stream.uids("pods")
    kubectl.within(namespace).apply(kafka_secret("socket.nagle.disable=true"))
    wait_until_replaced(stream, before)
    stream.wait_until_rolled_out()

    before = stream.uids("pods")
    stream.annotate("restart", "now")
    wait_until_replaced(stream, before)
    stream.wait_until_rolled_out()

    stream.send(retries(SEED, COUNT))
    stream.judged()


@pytest.mark.matrix  # that of the plugin suspends and resumes as well
def test_a_suspended_stream_keeps_its_volumes_and_remembers_once_it_is_resumed(
    streams: CreateStream,
) -> None:
    stream = streams(partitions=2)
    stream.apply()
    stream.wait_until_ready()
    stream.send(retries(SEED, COUNT, partitions=2))
    stream.wait_until_passed()
    volumes = stream.uids("persistentvolumeclaims")

    stream.patch(suspend=True)
    stream.wait_for_condition("Ready", ConditionStatus.FALSE, reason="Suspended")
    stream.wait_for_phase(PartitionPhase.SUSPENDED)
    stream.wait_until(lambda: not stream.children("pods"), "no pod is left")
    assert stream.uids("persistentvolumeclaims") == volumes
    stream.send(retries(SEED, COUNT, partitions=2))
    assert stream.committed() != stream.ends()

    stream.patch(suspend=False)
    stream.wait_until_ready()

    stream.judged()
    assert stream.uids("persistentvolumeclaims") == volumes
    assert stream.starts() == ["Tail", "Tail"]
    assert stream.duplicates() == COUNT


def kafka_secret(properties: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": KAFKA_SECRET},
        "stringData": {"client.properties": properties},
    }


def wait_until_replaced(stream: ClusterStream, before: dict[str, str]) -> None:
    def replaced() -> bool:
        now = stream.uids("pods")
        return now.keys() == before.keys() and not set(now.values()) & set(before.values())

    stream.wait_until(replaced, "its pods are others")


def wait_until_partition_passed(stream: ClusterStream, partition: int) -> None:
    end = stream.ends()[partition]
    stream.wait_until(
        lambda: stream.progress().get(partition, 0) >= end,
        f"offset {end} of partition {partition} is committed",
    )
