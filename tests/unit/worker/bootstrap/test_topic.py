"""A topic as a source of ids, of any partitions, on a reader in memory."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from dedupe_crds.spec.repartition import Repartition, RepartitionBy
from dedupe_crds.spec.topics import IdSource
from dedupe_ids.extract import extractor_for, pack_id
from dedupe_ids.jump_hash import partitions_of_ids, partitions_of_keys
from dedupe_kafka.errors import InvalidConfig
from dedupe_kafka.offsets import OffsetRange
from dedupe_kafka.partitioners import Partitioner, partitions_of
from dedupe_worker.bootstrap.placement import placement_of
from dedupe_worker.bootstrap.topic import TopicSource
from dedupe_worker.kafka.consumer import Batch
from dedupe_worker.store.external_sort import id_bytes

COUNT = 5


class Record:
    """A record with an id in its header."""

    def __init__(self, partition: int, offset: int, key: bytes | None, id_: bytes) -> None:
        self._place, self._key, self._id = (partition, offset), key, id_

    def partition(self) -> int:
        return self._place[0]

    def offset(self) -> int:
        return self._place[1]

    def key(self) -> bytes | None:
        return self._key

    def headers(self) -> list[tuple[str, bytes]]:
        return [("id", self._id)]

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_000


class Reader:
    """All records of a partition in one batch."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records

    def seek(self, offset: int) -> None:
        assert offset == 0

    def read(self, max_records: int, wait_seconds: float) -> Batch:
        del max_records, wait_seconds
        records: Any = list(self._records)
        return Batch(records, len(records), 0)

    def close(self) -> None: ...


def topic(*partitions: Sequence[tuple[bytes | None, bytes]]) -> dict[int, list[Record]]:
    """Return the records of a topic, from key and id."""
    return {
        number: [Record(number, at, *given) for at, given in enumerate(records)]
        for number, records in enumerate(partitions)
    }


def source(
    records: Mapping[int, Sequence[Record]],
    wanted: set[int],
    *,
    repartition: Repartition | None = None,
    by: Partitioner | None = None,
) -> TopicSource:
    reader: Callable[[int], Any] = lambda number: Reader(records[number])  # noqa: E731 (with its type)
    return TopicSource(
        "old",
        "uuid",
        {number: OffsetRange(0, len(found)) for number, found in records.items()},
        reader=reader,
        extract=extractor_for(IdSource.model_validate({"from": "Header", "name": "id"})),
        wanted=frozenset(wanted),
        placement=placement_of(repartition, by, COUNT),
    )


def placed(found: TopicSource) -> dict[bytes, int]:
    return {
        packed: partition
        for batch in found.batches(None)
        for packed, partition in zip(
            id_bytes(batch.entries["id"]), batch.partitions.tolist(), strict=True
        )
    }


RECORDS = topic(
    [(f"key-{n % 7}".encode(), f"id-{n}".encode()) for n in range(20)],
    [(f"key-{n % 7}".encode(), f"id-{n}".encode()) for n in range(20, 40)],
)
IDS = [pack_id(f"id-{n}".encode()) for n in range(40)]
KEYS = [f"key-{n % 7}".encode() for n in range(40)]


def test_without_a_placement_only_the_wanted_partitions_are_read() -> None:
    assert placed(source(RECORDS, {1})) == dict.fromkeys(IDS[20:], 1)
    assert source(RECORDS, {1}).total == 20
    assert source(RECORDS, {1}).fingerprint == {"topic": "old", "id": "uuid", "partitionBy": None}


def test_by_the_hash_of_producers_all_partitions_are_read() -> None:
    found = source(RECORDS, {1}, by=Partitioner.CRC32)

    expected = partitions_of(KEYS, COUNT, Partitioner.CRC32).tolist()
    assert placed(found) == dict(zip(IDS, expected, strict=True))
    assert found.fingerprint["partitionBy"] == "crc32"


def test_with_a_repartition_by_id_each_id_goes_where_routers_send_it() -> None:
    found = source(RECORDS, {1}, repartition=Repartition(partitions=COUNT))

    expected = partitions_of_ids(b"".join(IDS), COUNT).tolist()
    assert placed(found) == dict(zip(IDS, expected, strict=True))
    assert found.total == 40
    assert found.fingerprint["partitionBy"] == "Id"


def test_with_a_repartition_by_key_the_key_decides() -> None:
    by_key = Repartition(by=RepartitionBy.KEY, partitions=COUNT)
    found = source(RECORDS, {1}, repartition=by_key)

    expected = partitions_of_keys(KEYS, COUNT).tolist()
    assert placed(found) == dict(zip(IDS, expected, strict=True))
    with pytest.raises(InvalidConfig, match=r"old/0 offset 1 has no key, so spec\.repartition\.by"):
        placed(source(topic([(b"k", b"a"), (None, b"b")]), {1}, repartition=by_key))


def test_a_record_without_a_key_has_a_partition_by_id() -> None:
    found = placed(source(topic([(None, b"a")]), {0}, repartition=Repartition(partitions=COUNT)))

    assert found == {pack_id(b"a"): partitions_of_ids(pack_id(b"a"), COUNT).tolist()[0]}


def test_the_hash_of_producers_is_refused_with_a_repartition() -> None:
    with pytest.raises(InvalidConfig, match=r"--partition-by is .* spec\.repartition\.by: Id"):
        placement_of(Repartition(partitions=COUNT), Partitioner.MURMUR2, COUNT)
