"""Keys go to the partitions that Kafka's clients send them to.

tests/component/local/test_bootstrap.py compares with the clients themselves.
"""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_kafka.partitioners import Partitioner, murmur2, partitions_of


def plain_murmur2(key: bytes) -> int:
    """One key at a time, as Kafka's Utils.murmur2 is written."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    hashed = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for start in range(0, whole, 4):
        word = int.from_bytes(key[start : start + 4], "little") * m & mask
        word = (word ^ word >> 24) * m & mask
        hashed = (hashed * m & mask) ^ word
    if rest := key[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * m & mask
    hashed = (hashed ^ hashed >> 13) * m & mask
    return hashed ^ hashed >> 15


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_kafkas_own_tests(key: bytes, expected: int) -> None:
    assert murmur2([key]).astype(np.int32).tolist() == [expected]


@given(st.lists(st.binary(max_size=40), max_size=30))
def test_many_keys_at_once_are_as_each_alone(keys: Sequence[bytes]) -> None:
    assert murmur2(keys).tolist() == [plain_murmur2(key) for key in keys]


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 1000))
def test_partitions_are_those_of_the_clients(keys: Sequence[bytes], count: int) -> None:
    java = [(plain_murmur2(key) & 0x7FFFFFFF) % count for key in keys]
    assert partitions_of(keys, count, Partitioner.MURMUR2).tolist() == java
    librdkafka = [crc32(key) % count for key in keys]
    assert partitions_of(keys, count, Partitioner.CRC32).tolist() == librdkafka
