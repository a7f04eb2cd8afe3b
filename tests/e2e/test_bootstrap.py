"""A new stream that knows what was delivered before it: the Job of the examples, on real volumes."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from dedupe_crds.status.stream import PartitionPhase
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.stream import ClusterStream
from tests.support.checker.record import Message
from tests.support.traffic.traffic import produce

CreateStream = Callable[..., ClusterStream]

JOB = Path(__file__).parents[2] / "examples/kubernetes/bootstrap-job.yaml"
DELIVERED = 2000


def messages(first: int, last: int) -> list[Message]:
    """One for each id, spread over both partitions."""
    return [Message(number % 2, f"id-{number}".encode(), b"v") for number in range(first, last)]


@pytest.mark.matrix  # tests/component/local/test_bootstrap.py
def test_what_was_delivered_before_is_not_passed_on_again(
    streams: CreateStream, kubectl: Kubectl, topics: Callable[..., str]
) -> None:
    stream = streams(partitions=2)
    delivered = topics("delivered", 2, **{"retention.ms": -1})
    produce(stream.bootstrap_servers, delivered, messages(0, DELIVERED))
    stream.apply(suspend=True)
    stream.wait_for_phase(PartitionPhase.SUSPENDED)
    within = kubectl.within(stream.namespace)
    for partition in range(2):
        within.apply(job(stream, partition, delivered))
    for partition in range(2):
        within.wait_for_job(f"bootstrap-{partition}")

    stream.patch(suspend=False)
    stream.wait_until_ready()
    stream.send(messages(DELIVERED - 500, DELIVERED + 500))
    stream.wait_until_passed()
    passed = sorted(record.key or b"" for record in stream.clean())
    assert passed == sorted(message.key or b"" for message in messages(DELIVERED, DELIVERED + 500))
    assert stream.duplicates() == 500
    stream.wait_until(
        lambda: stream.worker_status(0).window.keys == DELIVERED // 2 + 250, "the window is shown"
    )


def job(stream: ClusterStream, partition: int, delivered: str) -> dict[str, object]:
    """The example's Job, for a partition of this stream, as its page says to change it."""
    text = JOB.read_text()
    for example, ours in (
        ("flights-bootstrap-0", f"bootstrap-{partition}"),
        ("partition=0", f"partition={partition}"),
        ("flights-delivered", delivered),
        ("flights-0-1", f"{stream.name}-{partition}-1"),
        ("flights-worker", f"{stream.name}-worker"),
        ("namespace: shop", f"namespace: {stream.namespace}"),
        ('cpu: "1"', "cpu: 50m"),
    ):
        assert example in text
        text = text.replace(example, ours)
    document: dict[str, object] = yaml.safe_load(text)
    return document
