"""Partitions that are added to the input: told within seconds, kept waiting, and accepted without a restart."""

import time

import pytest

from dedupe_crds.status.stream import ConditionStatus
from tests.e2e.support.scene import Scene
from tests.faults.seed import SEED
from tests.support.traffic.traffic import retries

BEFORE, AFTER = 1, 2
COUNT = 500
NOTICED_SECONDS = 10.0


@pytest.mark.matrix  # tests/component/local/test_added_partitions.py
def test_added_partitions_wait_until_they_are_accepted(place: Scene) -> None:
    stream = place.stream("growing", partitions=BEFORE)
    stream.apply()
    stream.wait_until_ready()
    stream.send(retries(SEED, COUNT))
    stream.wait_until_passed()
    before = stream.uids("pods,statefulsets")
    stream.wait_for_condition("InputPartitionsAdded", ConditionStatus.FALSE)

    place.topics.grow(stream.input_topic, AFTER)
    began = time.monotonic()
    stream.wait_for_condition(
        "InputPartitionsAdded", ConditionStatus.TRUE, reason="InputPartitionsAdded"
    )
    print(
        f"added partitions: named after {time.monotonic() - began:.1f} s (goal: {NOTICED_SECONDS} s)"
    )
    stream.wait_for_events("InputPartitionsAdded")
    waiting = [message for message in retries(SEED, COUNT, partitions=AFTER) if message.partition]
    stream.send(waiting)
    assert [each.partition for each in stream.status().added_partitions or ()] == [1]
    stream.wait_for_condition("Ready", ConditionStatus.TRUE)
    assert stream.uids("pods,statefulsets") == before, "it has no worker, and nothing is restarted"

    stream.patch(input={"topic": stream.input_topic, "addedPartitions": "Accept"})
    stream.wait_until(
        lambda: [each.ready for each in stream.status().partitions] == [True, True],
        "the new partition has a worker",
    )
    stream.wait_until_passed()
    assert before.items() <= stream.uids("pods,statefulsets").items(), "nothing was restarted"
    stream.wait_for_condition("InputPartitionsAdded", ConditionStatus.FALSE)
    assert stream.status().added_partitions is None
