from zlib import crc32

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dedupe_worker.values import (
    OWNER_BYTES,
    UNKNOWN_OWNER,
    Decoded,
    ValueLayout,
    content_hashes,
    contents_differ,
    decode_owner,
    encode_owner,
    encode_owners,
    timestamp_of,
)
from tests.unit.worker.strategies import message

partitions = st.integers(0, 2**16 - 1)
offsets = st.integers(0, 2**48 - 2)


@given(partitions, offsets)
def test_an_owner_survives_writing_and_reading(partition: int, offset: int) -> None:
    assert decode_owner(encode_owner(partition, offset)) == (partition, offset)


@given(partitions, st.lists(offsets))
def test_a_batch_of_owners_is_packed_as_one_by_one(partition: int, batch: list[int]) -> None:
    packed = encode_owners(partition, np.array(batch, np.uint64)).tolist()
    assert packed == [encode_owner(partition, offset) for offset in batch]
    assert all(type(each) is bytes and len(each) == OWNER_BYTES for each in packed)


def test_an_unknown_owner_is_no_record_of_any_partition() -> None:
    assert decode_owner(UNKNOWN_OWNER) is None
    assert encode_owner(2**16 - 1, 2**48 - 2) != UNKNOWN_OWNER


@pytest.mark.parametrize(("partition", "offset"), [(2**16, 0), (0, 2**48), (-1, 0), (0, -1)])
def test_what_does_not_fit_is_refused(partition: int, offset: int) -> None:
    with pytest.raises(OverflowError):
        encode_owner(partition, offset)


@given(partitions, offsets, offsets)
def test_owners_sort_by_offset(partition: int, first: int, second: int) -> None:
    owners = [encode_owner(partition, each) for each in (first, second)]
    assert (owners[0] < owners[1]) == (first < second)


contents = st.tuples(st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=9))


@given(st.lists(contents, min_size=2, max_size=2, unique=True))
def test_another_content_has_another_hash(pair: list[tuple[bytes | None, bytes | None]]) -> None:
    first, second = content_hashes([message(0, *content) for content in pair])
    assert first != second


def test_a_hash_is_of_the_content_alone() -> None:
    first, second = content_hashes([message(1, b"k", b"v", time_ms=2), message(3, b"k", b"v")])
    assert first == second


@given(st.lists(contents))
@example([(b"key" * 40, b"value" * 1000)])
def test_a_hash_is_the_one_that_stores_have(batch: list[tuple[bytes | None, bytes | None]]) -> None:
    expected = []
    for key, value in batch:
        shape = (0 if key is None else len(key) + 1) << 1 | (value is None)
        expected.append(crc32(value or b"", crc32(key or b"", shape * 0x9E3779B1 & 0xFFFFFFFF)))
    assert content_hashes([message(0, *each) for each in batch]).tolist() == expected


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("hashed", [False, True])
@given(owner=st.tuples(partitions, offsets), time_ms=st.integers(-(2**47) + 1, 2**47 - 1))
def test_a_value_of_any_layout_says_what_was_kept(
    timed: bool, hashed: bool, owner: tuple[int, int], time_ms: int
) -> None:
    layout = ValueLayout(timed=timed, hashed=hashed)
    records, rows = [message(0), message(1, b"k", b"v")], np.array([1])
    owners = encode_owners(owner[0], np.array([owner[1]], np.uint64))
    [value] = layout.encode(owners, records, rows, np.array([0, time_ms])).tolist()
    assert decode_owner(value[:OWNER_BYTES]) == owner
    assert timestamp_of(value) == (time_ms if timed else None)
    [other] = layout.encode(
        owners, [message(0), message(1, b"k", b"w")], rows, np.zeros(2, np.int64)
    ).tolist()
    assert contents_differ(value, other) == hashed
    assert not contents_differ(value, value)
    assert len(value) == layout.dtype.itemsize == 8 + 6 * timed + 4 * hashed


layouts = st.builds(ValueLayout, timed=st.booleans(), hashed=st.booleans())


@given(
    st.lists(
        st.tuples(layouts, st.tuples(partitions, offsets), st.integers(-(2**47) + 1, 2**47 - 1)),
        max_size=9,
    )
)
def test_a_batch_of_values_of_any_layouts_is_read_as_one_by_one(
    kept: list[tuple[ValueLayout, tuple[int, int], int]],
) -> None:
    values = [UNKNOWN_OWNER]
    for layout, (partition, offset), time_ms in kept:
        owners = encode_owners(partition, np.array([offset], np.uint64))
        times = np.array([time_ms])
        values += layout.encode(owners, [message(0, b"k")], np.array([0]), times).tolist()

    decoded = Decoded.of(values)

    assert decoded.owners.tolist() == [int.from_bytes(each[:OWNER_BYTES]) for each in values]
    times_ms = [
        time if timed else None
        for time, timed in zip(decoded.times.tolist(), decoded.timed.tolist(), strict=True)
    ]
    assert times_ms == list(map(timestamp_of, values))


@pytest.mark.parametrize(
    "time_ms",
    [2**47, -(2**47), 1_700_000_000_000_000, 1_700_000_000_000_000_000, -(2**63), 2**63 - 1],
)
def test_a_timestamp_that_six_bytes_cannot_hold_is_unknown(time_ms: int) -> None:
    """Timestamps in microseconds and nanoseconds exceed them: a part of one would be another time."""
    layout = ValueLayout(timed=True)
    owners = encode_owners(0, np.array([1], np.uint64))

    [value] = layout.encode(owners, [message(0)], np.array([0]), np.array([time_ms])).tolist()

    assert timestamp_of(value) is None
    assert Decoded.of([value]).timed.tolist() == [False]
    assert len(value) == layout.dtype.itemsize
