"""Input of all peers: one log, partitioned by key as Java's producer would."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import Sender, Traffic, key_of, traffic
from benchmarks.peers.peer import PARTITIONS
from dedupe_kafka.partitioners import Partitioner, partitions_of

_CHUNK: Final = 100_000  # messages that are sent to all partitions in turn


class Input(NamedTuple):
    """A topic with `records` in each partition, of `sent` in all."""

    topic: str
    sent: Traffic
    records: list[int]


def send_input(testbed: Testbed, messages: int) -> Input:
    """Create the input. Raises SendFailed."""
    sent = traffic(messages)
    partitions = partition_of_each(sent)
    topic = testbed.create_topic("peers", partitions=PARTITIONS)
    senders = [Sender(testbed.bootstrap_servers, topic, each) for each in range(PARTITIONS)]
    for start in range(0, messages, _CHUNK):
        part = slice(start, start + _CHUNK)
        for partition, sender in enumerate(senders):
            sender.send(sent.numbers[part][partitions[part] == partition])
    return Input(topic, sent, np.bincount(partitions, minlength=PARTITIONS).tolist())


def partition_of_each(sent: Traffic) -> NDArray[np.int64]:
    """Return the partition of each message sent: that of its key.

    So duplicates are in the same partition as their original.
    """
    keys = [key_of(number) for number in range(len(sent.first_at))]
    return partitions_of(keys, PARTITIONS, Partitioner.MURMUR2)[sent.numbers]
