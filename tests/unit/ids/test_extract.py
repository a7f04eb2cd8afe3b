"""What becomes of an id on its way from a record into the store."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_crds.spec.topics import IdFrom, IdSource
from dedupe_ids.extract import ID_BYTES, PackedIds, extractor_for, pack_id, pack_ids
from tests.support.checker.id_sources import IdOf, content_id, header_id, key_id
from tests.support.checker.record import Message
from tests.unit.worker.strategies import FakeRecord, raw_ids

uuids = st.uuids().map(str)


def one_by_one(raw: Iterable[bytes | None]) -> tuple[list[int], bytes]:
    found = [(row, pack_id(one)) for row, one in enumerate(raw) if one]
    return [row for row, _ in found], b"".join(packed for _, packed in found)


def seen(packed: PackedIds) -> tuple[list[int], bytes]:
    return packed.rows.tolist(), packed.packed


@given(uuids)
def test_a_canonical_uuid_is_its_own_16_bytes(text: str) -> None:
    assert pack_id(text.encode()) == UUID(text).bytes


@given(st.lists(uuids.map(str.encode)))
def test_a_batch_of_uuids_is_packed_as_one_by_one(raw: list[bytes]) -> None:
    assert seen(pack_ids(raw)) == one_by_one(raw)


@given(st.lists(st.none() | st.just(b"") | raw_ids))
def test_a_batch_of_anything_is_packed_as_one_by_one(raw: list[bytes | None]) -> None:
    assert seen(pack_ids(raw)) == one_by_one(raw)


@given(uuids, uuids)
def test_35_and_37_bytes_that_join_to_two_uuids_are_no_uuids(first: str, second: str) -> None:
    joined = (first + second).encode()
    raw = [joined[:35], joined[35:]]
    assert seen(pack_ids(raw)) == one_by_one(raw)
    assert pack_ids(raw).packed != UUID(first).bytes + UUID(second).bytes


@given(uuids.filter(lambda text: text != text.upper()))
def test_another_spelling_of_a_uuid_is_another_id(text: str) -> None:
    spellings = [text, text.upper(), text.replace("-", ""), f"{{{text}}}", text + "\0"]
    packed = pack_ids([each.encode() for each in spellings]).packed
    assert len({packed[at : at + ID_BYTES] for at in range(0, len(packed), ID_BYTES)}) == 5


@given(st.uuids(), st.integers(0, 35), st.integers(0, 255))
def test_a_uuid_with_one_byte_changed_is_never_taken_for_a_uuid_it_is_not(
    identity: UUID, place: int, byte: int
) -> None:
    raw = bytearray(str(identity).encode())
    raw[place] = byte
    changed = bytes(raw)
    try:
        is_uuid = str(UUID(changed.decode())).encode() == changed
    except ValueError:
        is_uuid = False
    assert (pack_id(changed) == UUID(changed.decode()).bytes) if is_uuid else True
    assert seen(pack_ids([changed])) == one_by_one([changed])
    if changed != str(identity).encode():
        assert pack_id(changed) != identity.bytes


@given(st.lists(raw_ids, unique=True))
def test_different_ids_stay_different(raw: list[bytes]) -> None:
    assert len({pack_id(each) for each in raw}) == len(raw)


optional_bytes = st.none() | st.binary(max_size=3)
messages = st.lists(
    st.builds(
        Message,
        partition=st.just(0),
        key=optional_bytes,
        value=optional_bytes,
        headers=st.lists(
            st.tuples(st.sampled_from(["id", "ID", "other"]), optional_bytes), max_size=4
        ).map(tuple),
    ),
    max_size=12,
)


@pytest.mark.parametrize(
    ("source", "reference"),
    [
        (IdSource.model_validate({"from": IdFrom.KEY}), key_id),
        (IdSource.model_validate({"from": IdFrom.HEADER, "name": "id"}), header_id("id")),
        (IdSource.model_validate({"from": IdFrom.CONTENT}), content_id),
    ],
    ids=["Key", "Header", "Content"],
)
@given(batch=messages)
def test_records_have_the_same_id_exactly_if_the_manifest_says_so(
    source: IdSource, reference: IdOf, batch: list[Message]
) -> None:
    records: Any = [FakeRecord(each.key, each.value, list(each.headers) or None) for each in batch]
    found = extractor_for(source)(records)
    expected = {row: one for row, each in enumerate(batch) if (one := reference(each)) is not None}
    assert found.rows.tolist() == list(expected)
    rows_of_id, rows_of_packed = defaultdict(list), defaultdict(list)
    for place, (row, identity) in enumerate(expected.items()):
        rows_of_id[identity].append(row)
        rows_of_packed[found.packed[place * ID_BYTES : (place + 1) * ID_BYTES]].append(row)
    assert sorted(rows_of_packed.values()) == sorted(rows_of_id.values())
