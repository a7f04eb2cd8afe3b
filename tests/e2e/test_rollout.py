"""Workers that are replaced, stopped and started on request."""

from collections.abc import Callable

import pytest

from dedupe_crds.status.stream import ConditionStatus, PartitionPhase
from tests.cluster.environment import Environment
from tests.e2e.support.kubectl import Kubectl, Object
from tests.e2e.support.stream import ClusterStream
from tests.faults.seed import SEED
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., ClusterStream]

COUNT = 300
KAFKA_SECRET = "kafka"  # noqa: S105 # its name


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
