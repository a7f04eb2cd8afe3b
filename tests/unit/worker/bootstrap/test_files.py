"""Files as users have them: the ids found are those that a worker would find in records."""

import gzip
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from dedupe_crds.spec.repartition import Repartition, RepartitionBy
from dedupe_crds.spec.topics import IdSource
from dedupe_ids.extract import pack_id
from dedupe_ids.jump_hash import partitions_of_ids, partitions_of_keys
from dedupe_kafka.errors import InvalidConfig
from dedupe_kafka.partitioners import Partitioner, partitions_of
from dedupe_worker.bootstrap.files import FileSource
from dedupe_worker.bootstrap.placement import placement_of
from dedupe_worker.bootstrap.source import Columns
from dedupe_worker.store.external_sort import id_bytes

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOON_MS = 1_795_262_400_000
UUID = "0b5ff7f4-6e9c-4b3f-9d3e-3f1f9a6d2c11"


def source(path: Path, id_from: str = "Key", count: int = 1, **options: Any) -> FileSource:  # noqa: ANN401 # whatever it takes
    id_source: dict[str, str] = {"from": id_from}
    id_source |= {"JsonPath": {"path": "$.id"}, "Header": {"name": "id"}}.get(id_from, {})
    placement = placement_of(options.pop("repartition", None), options.pop("by", None), count)
    given = {"columns": Columns(), "wanted": frozenset(range(count)), "placement": placement}
    return FileSource(
        path,
        stream="shop/orders",
        id_source=IdSource.model_validate(id_source),
        count=count,
        **{**given, **options},
    )


def read(found: FileSource, position: object = None) -> list[tuple[bytes, int, int]]:
    return [
        row
        for batch in found.batches(position)
        for row in zip(
            id_bytes(batch.entries["id"]),
            batch.entries["position"].tolist(),
            batch.partitions.tolist(),
            strict=True,
        )
    ]


def csv(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def table(path: Path, **columns: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns), path)
    return path


def test_ids_are_packed_as_the_worker_packs_keys(tmp_path: Path) -> None:
    file = csv(tmp_path / "ids.csv", "id,time", f"{UUID},{NOON_MS}", f"007,{NOON_MS + 1}")

    assert read(source(file)) == [
        (pack_id(UUID.encode()), NOON_MS, 0),
        (pack_id(b"007"), NOON_MS + 1, 0),
    ]


@pytest.mark.parametrize(
    "time",
    [
        "1795262400000",
        "2026-11-21T12:00:00Z",
        "2026-11-21 12:00:00",
        "2026-11-21T13:00:00.000+01:00",
    ],
)
def test_times_in_csv(tmp_path: Path, time: str) -> None:
    assert read(source(csv(tmp_path / "ids.csv", "id,time", f"a,{time}")))[0][1] == NOON_MS


@pytest.mark.parametrize(
    "times",
    [
        pa.array([NOON], pa.timestamp("us", "UTC")),
        pa.array([NOON], pa.timestamp("ns", "Europe/Berlin")),
        pa.array([NOON.replace(tzinfo=None)], pa.timestamp("s")),
        pa.array([NOON_MS], pa.int64()),
        pa.array([NOON.isoformat()]),
    ],
)
def test_times_in_parquet(tmp_path: Path, times: pa.Array) -> None:
    file = table(tmp_path / "ids.parquet", id=["a"], time=times)

    assert read(source(file))[0][1] == NOON_MS


@pytest.mark.parametrize("id_from", ["Key", "Header", "JsonPath"])
@pytest.mark.parametrize("column", [pa.array([b"17"]), pa.array(["17"]), pa.array([17])])
def test_ids_in_parquet(tmp_path: Path, id_from: str, column: pa.Array) -> None:
    file = table(tmp_path / "ids.parquet", id=column, time=[NOON_MS])
    number_in_json = id_from == "JsonPath" and pa.types.is_integer(column.type)

    [(found, _, _)] = read(source(file, id_from))

    assert found == pack_id(b"\xff17" if number_in_json else b"17")


def test_rows_without_an_id_are_counted(tmp_path: Path) -> None:
    file = table(tmp_path / "ids.parquet", id=["a", None, "", "b"], time=[1, 2, 3, 4])

    [batch] = source(file).batches(None)

    assert batch.without_id == 2
    assert batch.entries["position"].tolist() == [1, 4]


def test_a_partition_is_of_the_column_the_path_or_the_key(tmp_path: Path) -> None:
    in_column = csv(tmp_path / "ids.csv", "id,time,partition", "a,1,2", "b,1,0")
    assert [row[2] for row in read(source(in_column, count=3))] == [2, 0]

    for number in (1, 2):
        table(tmp_path / "parts" / f"partition={number}" / "x.parquet", id=["a"], time=[number])
    assert [row[1:] for row in read(source(tmp_path / "parts", count=3))] == [(1, 1), (2, 2)]
    assert [row[2] for row in read(source(tmp_path / "parts", count=3, wanted={2}))] == [2]
    one = tmp_path / "parts" / "partition=1" / "x.parquet"
    assert [row[2] for row in read(source(one, count=3))] == [1]

    keyed = csv(tmp_path / "keyed.csv", "id,time", *(f"key-{n},1" for n in range(50)))
    keys = [f"key-{n}".encode() for n in range(50)]
    for partitioner in Partitioner:
        found = [row[2] for row in read(source(keyed, count=7, by=partitioner))]
        assert found == partitions_of(keys, 7, partitioner).tolist()


BY_ID, BY_KEY = (Repartition(by=by, partitions=5) for by in RepartitionBy)


@pytest.mark.parametrize("id_from", ["Key", "Header", "JsonPath"])
def test_with_a_repartition_the_partition_follows_from_the_id(tmp_path: Path, id_from: str) -> None:
    """Also if the files contain another one, of the topic that the ids were in."""
    ids = [f"id-{n}".encode() for n in range(40)]
    expected = partitions_of_ids(b"".join(map(pack_id, ids)), 5).tolist()
    assert len(set(expected)) == 5
    given = {"id": [*ids[:20], None, *ids[20:]], "time": [1] * 41}
    for options in ({}, {"partition": [9] * 41}):
        file = table(tmp_path / "partition=7" / "x.parquet", **given, **options)
        found = source(file, id_from, count=5, repartition=BY_ID, wanted={1})
        assert [row[2] for row in read(found)] == expected

    ready = table(tmp_path / "x.parquet", id16=[*map(pack_id, ids)], seen_ms=[1] * 40)
    assert [row[2] for row in read(source(ready, count=5, repartition=BY_ID))] == expected


def test_with_a_repartition_by_key_it_follows_from_an_id_that_is_the_key(tmp_path: Path) -> None:
    ids = [f"id-{n}".encode() for n in range(40)]
    file = table(tmp_path / "x.parquet", id=ids, time=[1] * 40, partition=[9] * 40)

    found = [row[2] for row in read(source(file, count=5, repartition=BY_KEY))]

    assert found == partitions_of_keys(ids, 5).tolist()
    with pytest.raises(
        InvalidConfig, match=r"repartition\.by: Key determines .*x\.parquet does not contain them"
    ):
        read(source(file, "Header", count=5, repartition=BY_KEY))
    ready = table(tmp_path / "x.parquet", id16=[bytes(16)], seen_ms=[1])
    with pytest.raises(InvalidConfig, match="does not contain them: read the ids --from topic"):
        read(source(ready, count=5, repartition=BY_KEY))


@pytest.mark.parametrize("repartition", [BY_ID, BY_KEY])
def test_files_made_for_a_repartition_have_the_partitions_of_its_ids(
    tmp_path: Path, repartition: Repartition
) -> None:
    for number in (1, 2):
        table(tmp_path / f"partition={number}" / "x.parquet", id16=[bytes(16)], seen_ms=[5])
    made_for = tmp_path / "bootstrap-of.json"
    text = '{"stream": "shop/orders", "inputTopic": "a, b", "partitions": 5'
    made_for.write_text(f'{text}, "repartition": "{repartition.by}"}}')

    found = read(source(tmp_path, count=5, repartition=repartition, wanted={2}))

    assert [row[2] for row in found] == [2]
    with pytest.raises(InvalidConfig, match=r"with another spec\.repartition"):
        source(tmp_path, count=5)
    made_for.write_text(f"{text}}}")
    with pytest.raises(InvalidConfig, match=r"with another spec\.repartition"):
        source(tmp_path, count=5, repartition=repartition)


def test_ids_that_are_ready_are_taken_as_they_are(tmp_path: Path) -> None:
    ids = [bytes(range(16)), b"\0" * 16]
    file = table(tmp_path / "partition=4" / "a.parquet", id16=ids, seen_ms=[5, 6])
    assert read(source(tmp_path, count=5)) == [(ids[0], 5, 4), (ids[1], 6, 4)]
    file = table(file, id16=[b"short"], seen_ms=[5])
    with pytest.raises(InvalidConfig, match="must hold 16 bytes"):
        read(source(tmp_path, count=5))


def test_reading_goes_on_after_any_batch(tmp_path: Path) -> None:
    """Over several files, and several blocks of one: CSV is read 8 MiB at a time."""
    for name in ("a", "b"):
        lines = (f"{name}-{n:060d},{n}\n" for n in range(250_000))
        (tmp_path / f"{name}.csv").write_text("id,time\n" + "".join(lines))
    whole = source(tmp_path)
    batches = list(whole.batches(None))
    assert len(batches) > 4
    assert [batch.done for batch in batches] == sorted(batch.done for batch in batches)
    assert batches[-1].done == whole.total

    counts = [len(batch.entries) for batch in batches]
    for number, batch in enumerate(batches, start=1):
        rest = [len(b.entries) for b in source(tmp_path).batches(batch.position)]
        assert rest == counts[number:]


def test_a_compressed_file(tmp_path: Path) -> None:
    (tmp_path / "ids.csv.gz").write_bytes(gzip.compress(b"id,time\na,1\n"))
    assert read(source(tmp_path)) == [(pack_id(b"a"), 1, 0)]


def test_files_that_spark_has_not_finished_are_refused(tmp_path: Path) -> None:
    table(tmp_path / "partition=0" / "a.parquet", id16=[bytes(16)], seen_ms=[5])
    (tmp_path / "_temporary").mkdir()
    with pytest.raises(InvalidConfig, match="Spark has not written all of it"):
        source(tmp_path)


def test_files_made_for_another_stream_are_refused(tmp_path: Path) -> None:
    table(tmp_path / "partition=0" / "a.parquet", id16=[bytes(16)], seen_ms=[5])
    made_for = tmp_path / "bootstrap-of.json"
    made_for.write_text('{"stream": "shop/orders", "inputTopic": "orders", "partitions": 3}')
    assert len(read(source(tmp_path, count=3))) == 1
    with pytest.raises(InvalidConfig, match="with 3 partitions, and this is shop/orders with 4"):
        source(tmp_path, count=4)
    made_for.write_text('{"stream": "shop/bills", "inputTopic": "bills", "partitions": 3}')
    with pytest.raises(InvalidConfig, match="made for shop/bills"):
        source(tmp_path, count=3)


@pytest.mark.parametrize(
    ("write", "options", "says"),
    [
        (
            lambda d: csv(d / "x.csv", "key,time", "a,1"),
            {},
            "no column 'id', it has key, time: .*--id-column",
        ),
        (lambda d: csv(d / "x.csv", "id,when", "a,1"), {}, "no column 'time', .*--time-column"),
        (lambda d: csv(d / "x.csv", "id,time", "a,soon"), {}, "times must all be .*'soon'"),
        (lambda d: csv(d / "x.csv", "id,time", "a,1"), {"count": 2}, "--partition-by murmur2"),
        (
            lambda d: csv(d / "x.csv", "id,time,partition", "a,1,2"),
            {"count": 2},
            "partition 2 is not in the input",
        ),
        (
            lambda d: csv(d / "x.csv", "id,time", "a,1"),
            {"count": 2, "id_from": "Header", "by": Partitioner.CRC32},
            "works on the records' keys",
        ),
        (
            lambda d: csv(d / "x.csv", "id,time", "a,1"),
            {"id_from": "Content"},
            "only be read --from topic",
        ),
        (lambda d: csv(d / "x.txt", "id,time", "a,1"), {}, "must end with .parquet"),
        (lambda d: csv(d / "x.parquet", "id,time", "a,1"), {}, "x.parquet: "),
        (lambda d: d, {}, "holds no"),
        (lambda d: d / "gone.csv", {}, "no such file"),
    ],
)
def test_what_can_not_be_used_is_refused_with_what_to_do(
    tmp_path: Path, write: Callable[[Path], Path], options: dict[str, Any], says: str
) -> None:
    path = write(tmp_path)
    with pytest.raises(InvalidConfig, match=says):
        read(source(path, **options))
