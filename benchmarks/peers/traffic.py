"""Input of all peers: one log, partitioned by key as Java's producer would.

In an input without keys the messages go to the partitions in turn, so copies of an id are in any of them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import Traffic, key_of, send_to, traffic
from benchmarks.peers.peer import PARTITIONS
from dedupe_kafka.partitioners import Partitioner, partitions_of


class Input(NamedTuple):
    """A topic with `records` in each partition, of `sent` in all."""

    topic: str
    sent: Traffic
    records: list[int]


def send_input(testbed: Testbed, messages: int, *, keyed: bool = True) -> Input:
    """Create the input. Raises SendFailed."""
    sent = traffic(messages, keyed=keyed)
    partitions = partition_of_each(sent)
    topic = testbed.create_topic("peers", partitions=PARTITIONS)
    send_to(testbed.bootstrap_servers, topic, sent, partitions)
    return Input(topic, sent, np.bincount(partitions, minlength=PARTITIONS).tolist())


def partition_of_each(sent: Traffic) -> NDArray[np.int64]:
    """Return the partition of each message sent: that of its key, or all in turn.

    So duplicates of a message with a key are in the same partition as their original.
    """
    if not sent.keyed:
        return np.arange(len(sent.numbers)) % PARTITIONS
    keys = [key_of(number) for number in range(len(sent.first_at))]
    return partitions_of(keys, PARTITIONS, Partitioner.MURMUR2)[sent.numbers]
