"""Messages that keep coming while pods are killed."""

import random
from collections.abc import Callable

import pytest

from tests.cluster.chart import NAMESPACE
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.stream import ClusterStream
from tests.faults.seed import SEED
from tests.support.traffic.traffic import PacedProducer, retries

CreateStream = Callable[..., ClusterStream]

PARTITIONS = 3
PER_SECOND = 150.0
ROUNDS = 5
ENOUGH = 1_000_000  # for the rounds to be over first
OPERATOR = ("pod", "--selector", "app.kubernetes.io/component=operator")


@pytest.mark.alone
@pytest.mark.matrix
def test_nothing_is_lost_twice_altered_or_out_of_order_while_pods_are_killed_at_random(
    streams: CreateStream, kubectl: Kubectl
) -> None:
    rng = random.Random(SEED)
    stream = streams(partitions=PARTITIONS)
    stream.apply()
    stream.wait_until_ready()
    messages = retries(SEED, ENOUGH, partitions=PARTITIONS)

    with PacedProducer(
        stream.bootstrap_servers, stream.input_topic, messages, messages_per_second=PER_SECOND
    ) as producer:
        for number in range(ROUNDS):
            victims = rng.sample(range(PARTITIONS), rng.choice((1, 2)))
            before = stream.uids("pods")
            for partition in victims:
                kill(stream, partition, by_force=rng.random() < 0.5)
            if number % 2:
                kubectl.within(NAMESPACE)("delete", *OPERATOR, "--wait=false")
            # The others of a round may still be on their way when the next one comes.
            wait_until_follower_is_ready(stream, rng.choice(victims), before)
    producer.finish(deadline_seconds=1)
    assert 0 < producer.delivered < ENOUGH

    # A new generation: this is the word of the operator that runs now.
    stream.patch(failover={"nodeNotReadyAfter": "61s"})
    stream.wait_until_rolled_out()
    stream.judged()


def kill(stream: ClusterStream, partition: int, *, by_force: bool) -> None:
    """Delete a pod; by force, Kubernetes makes another while its process may still run."""
    how = ["--grace-period=0", "--force"] if by_force else ["--wait=false"]
    stream.kubectl("delete", "pod", stream.pod_name(partition), "--ignore-not-found", *how)


def wait_until_follower_is_ready(
    stream: ClusterStream, partition: int, before: dict[str, str]
) -> None:
    def ready() -> bool:
        pod = stream.kubectl.find("pod", stream.pod_name(partition))
        if pod is None or pod["metadata"]["uid"] in before.values():
            return False
        conditions = pod.get("status", {}).get("conditions", [])
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    stream.wait_until(ready, f"partition {partition} has another pod, which is ready")
