"""The partition of each record: by id, by key, by origin."""

from uuid import UUID

from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_ids.extract import pack_id
from dedupe_ids.jump_hash import partitions_of_ids, partitions_of_keys
from dedupe_ids.route import Route
from tests.unit.crds.manifests import changed
from tests.unit.router.group import record

COUNT = 6
SPEC = parse_manifest(
    changed({"spec.id": {"from": "Header", "name": "id"}, "spec.repartition.partitions": COUNT}),
    "-",
).spec
BY_ID, BY_KEY = Route(SPEC, RepartitionBy.ID, COUNT), Route(SPEC, RepartitionBy.KEY, COUNT)
IDS = st.one_of(
    st.none(), st.binary(min_size=1, max_size=20), st.uuids().map(lambda u: str(u).encode())
)
KEYS = st.one_of(st.none(), st.binary(max_size=5))


def with_id(raw: bytes | None, key: bytes | None = None, partition: int = 0) -> Message:
    headers = None if raw is None else [("id", raw)]
    return record(key=key, partition=partition, headers=headers)


def of_id(raw: bytes) -> int:
    return int(partitions_of_ids(pack_id(raw), COUNT)[0])


def of_key(key: bytes) -> int:
    return int(partitions_of_keys([key], COUNT)[0])


@given(st.lists(st.tuples(IDS, KEYS, st.integers(0, 3)), max_size=20))
def test_the_first_that_a_record_has_decides(
    records: list[tuple[bytes | None, bytes | None, int]],
) -> None:
    batch = [with_id(*each) for each in records]
    by_id, by_key = BY_ID.of(batch), BY_KEY.of(batch)
    for at, (raw, key, partition) in enumerate(records):
        origin = of_key(b"raw:%d" % partition)
        key_else_origin = origin if key is None else of_key(key)
        id_else_origin = origin if raw is None else of_id(raw)
        assert by_id.partitions[at] == (key_else_origin if raw is None else of_id(raw))
        assert by_key.partitions[at] == (id_else_origin if key is None else of_key(key))
    assert by_id.without == sum(raw is None for raw, _, _ in records)
    assert by_key.without == sum(key is None for _, key, _ in records)


def test_copies_meet_whatever_their_key_and_partition_are() -> None:
    raw = str(UUID(int=7)).encode()
    batch = [with_id(raw, key, partition) for key in (None, b"a", b"b") for partition in range(4)]
    assert len(set(BY_ID.of(batch).partitions)) == 1


def test_an_empty_batch_has_no_partitions() -> None:
    assert BY_ID.of([]).partitions == []
