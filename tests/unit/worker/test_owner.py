import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_worker.owner import (
    OWNER_BYTES,
    UNKNOWN_OWNER,
    decode_owner,
    encode_owner,
    encode_owners,
)

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
