"""The input of the peers."""

import numpy as np

from benchmarks.harness.traffic import traffic
from benchmarks.peers.traffic import partition_of_each


def test_what_repeats_a_message_is_in_its_partition_and_both_have_about_half() -> None:
    sent = traffic(20_000)

    partitions = partition_of_each(sent)

    assert np.array_equal(partitions, partitions[sent.first_at][sent.numbers])
    assert np.allclose(np.bincount(partitions) / len(partitions), 0.5, atol=0.02)


def test_without_keys_messages_go_to_the_partitions_in_turn() -> None:
    sent = traffic(20_000, keyed=False)

    partitions = partition_of_each(sent)

    assert np.array_equal(partitions[:4], [0, 1, 0, 1])
    assert not np.array_equal(partitions, partitions[sent.first_at][sent.numbers])
