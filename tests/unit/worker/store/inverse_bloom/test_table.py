"""The slots, against a dictionary that has one entry a slot."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedupe_ids.extract import ID_BYTES
from dedupe_worker.store.bloom_filter import hash_ids
from dedupe_worker.store.inverse_bloom.sizing import LEAST_SLOTS, retained
from dedupe_worker.store.inverse_bloom.table import ID, Ids, Table, Values
from tests.unit.worker.strategies import packed_id

ZEROS = bytes(ID_BYTES)
WIDTHS = (8, 12, 14, 18)

Slots = dict[int, tuple[bytes, bytes]]

few_ids = [Random(5).randbytes(ID_BYTES) for _ in range(3 * LEAST_SLOTS)]
"""Three for each slot of the smallest table."""

batches = st.lists(
    st.lists(st.one_of(st.sampled_from(few_ids), packed_id), max_size=60), max_size=6
)


def array(ids: Sequence[bytes]) -> Ids:
    return np.frombuffer(b"".join(ids), ID)


def numbered(table: Table, start: int, count: int) -> tuple[list[bytes], Values]:
    """A value for each row that no other row has."""
    values = [number.to_bytes(table.value_bytes, "big") for number in range(start, start + count)]
    return values, np.frombuffer(b"".join(values), f"V{table.value_bytes}")


def slot_of(table: Table, one: bytes) -> int:
    """By Python's own integers."""
    return (int(hash_ids(one)[0]) * table.slots) >> 64


def get(model: Slots, table: Table, one: bytes) -> bytes | None:
    held, value = model.get(slot_of(table, one), (None, b""))
    return value if held == one else None


@given(batches, st.sampled_from(WIDTHS), st.integers(LEAST_SLOTS, 5000))
@settings(max_examples=60)
def test_put_and_lookup_are_a_dictionary_of_slots(
    rounds: list[list[bytes]], width: int, slots: int
) -> None:
    table, model, number = Table(slots, width), Slots(), 0
    for ids in rounds:
        written, values = numbered(table, number, len(ids))
        number += len(ids)
        used = table.put(array(ids), values)
        assert set(used.tolist()) == {slot_of(table, one) for one in ids}
        model.update((slot_of(table, i), (i, v)) for i, v in zip(ids, written, strict=True))
        asked = [*few_ids[:500], *ids, ZEROS]
        found = table.lookup(array(asked))
        expected = [get(model, table, one) for one in asked]
        assert found.known.tolist() == [value is not None for value in expected]
        assert found.values.tolist() == [value for value in expected if value is not None]
        assert table.may_know(hash_ids(b"".join(asked))).tolist() == found.known.tolist()


@given(st.lists(packed_id, max_size=50), st.integers(LEAST_SLOTS, 5000))
def test_an_empty_table_knows_nothing(ids: list[bytes], slots: int) -> None:
    table = Table(slots, 8)
    asked = array([*ids, ZEROS, b"\1" + bytes(15), b"\xff" * 16])
    assert not table.lookup(asked).known.any()
    assert not table.may_know(hash_ids(asked.tobytes())).any()


@given(batches, st.integers(LEAST_SLOTS, 2000))
@settings(max_examples=30)
def test_what_was_removed_is_new_again_and_nothing_else_is(
    rounds: list[list[bytes]], slots: int
) -> None:
    table, model = Table(slots, 8), Slots()
    for ids in rounds:
        written, values = numbered(table, 0, len(ids))
        table.put(array(ids), values)
        model.update((slot_of(table, i), (i, v)) for i, v in zip(ids, written, strict=True))
        gone = [*ids[::2], ZEROS]
        removed = {slot_of(table, one) for one in gone if get(model, table, one)}
        assert table.remove(array(gone)).tolist() == sorted(removed)
        for slot in removed:
            del model[slot]
        asked = [*ids, ZEROS, *few_ids[:300]]
        expected = [get(model, table, one) is not None for one in asked]
        assert table.lookup(array(asked)).known.tolist() == expected


@pytest.mark.parametrize("slots", [2**32, 2**32 - 1, 34_168_399])
def test_hashes_fall_evenly_and_in_order_into_any_number_of_slots(slots: int) -> None:
    table = Table(LEAST_SLOTS, 8)
    table.slots = slots  # the memory of so many is not needed for it
    hashes = np.sort(hash_ids(Random(1).randbytes(ID_BYTES * 100_000)))
    found = table.slots_of(hashes)
    assert found.tolist() == [(int(each) * slots) >> 64 for each in hashes]
    assert (np.diff(found) >= 0).all()
    share = np.bincount(found * 10 // slots, minlength=10)
    assert share.min() > 9_500


@pytest.mark.parametrize("slots", [0, LEAST_SLOTS - 1, 2**32 + 1])
def test_a_table_of_another_size_is_refused(slots: int) -> None:
    with pytest.raises(ValueError, match=f"{slots} slots"):
        Table(slots, 8)


@pytest.mark.parametrize("later", [20_000, 100_000, 300_000])
def test_it_retains_what_the_formula_says(later: int) -> None:
    """Within 1 %: of 100,000 ids in 200,000 slots, the chance itself makes 0.3 % at the most."""
    slots, count = 200_000, 100_000
    table = Table(slots, 8)
    ids = np.frombuffer(Random(7).randbytes(ID_BYTES * (count + later)), ID)
    values = np.zeros(len(ids), "V8")
    table.put(ids, values)
    # The first `count` ids have had from `later` to `later + count` ids after them.
    expected = np.mean([retained(slots, later + after) for after in range(0, count, 100)])
    assert table.lookup(ids[:count]).known.mean() == pytest.approx(expected, abs=0.01)
