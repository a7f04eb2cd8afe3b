"""The PySpark job makes the worker's ids, and its files fill the worker's stores."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_ids.extract import pack_id
from dedupe_ids.jump_hash import partitions_of_ids, partitions_of_keys
from dedupe_kafka.partitioners import Partitioner
from dedupe_pipeline.errors import PipelineError
from dedupe_pipeline.jobs.bootstrap.job import BootstrapResult, PastIds, bootstrap
from dedupe_worker.bootstrap.request import Request
from dedupe_worker.bootstrap.request import bootstrap as fill
from dedupe_worker.bootstrap.source import Columns
from dedupe_worker.store.state_dir import StateDirectory
from tests.conftest import CreateTopic
from tests.support.checker.record import Message
from tests.support.layers import matrix
from tests.support.processes.processes import Workers
from tests.support.spark.session import spark
from tests.support.traffic.hostile import hostile
from tests.support.traffic.streams import TestStream, stream_manifest
from tests.support.traffic.traffic import ID_HEADER, ID_PATH, order, produce

__all__ = ["spark"]

CreateStream = Callable[..., TestStream]

SEED = 20261121
HOUR_MS = 3_600_000


def orders(first: int, end: int, *, age_ms: int = HOUR_MS) -> list[Message]:
    now = int(time() * 1000)
    return [
        replace(order(SEED, n, partitions=2), timestamp_ms=now - age_ms) for n in range(first, end)
    ]


def run(
    spark: SparkSession,
    stream: TestStream,
    output: Path,
    source: str,
    **past: Any,  # noqa: ANN401 # as PastIds has it
) -> BootstrapResult:
    return bootstrap(spark, load_manifest(stream.manifest), PastIds(source=source, **past), output)


def fill_stores(stream: TestStream, workers: Workers, source: Path | str) -> None:
    states = {number: StateDirectory(workers.state_dir(stream, number)) for number in (0, 1)}
    request = Request(
        source=str(source), columns=Columns(), partition_by=None, before=None, work_dir=None
    )
    manifest = load_manifest(stream.manifest)
    work = states[0].root.with_name("work")
    fill(manifest, {}, request, states, work=work, on_progress=lambda _: None)


def duplicates(stream: TestStream, workers: Workers) -> int:
    """Return what both workers find when they get all messages."""
    found = 0
    for number in (0, 1):
        worker = workers.start(stream, number)
        worker.wait_until_caught_up()
        found += worker.status().counts.duplicates
    return found


@pytest.mark.parametrize(
    "id_from",
    [
        matrix({"from": "Key"}),
        matrix({"from": "Header", "name": ID_HEADER}),
        {"from": "JsonPath", "path": ID_PATH},
        matrix({"from": "Content"}),
    ],
    ids=lambda source: source["from"],
)
def test_ids_of_a_topic_are_those_of_the_worker(  # noqa: PLR0917 (pytest passes them by name)
    id_from: dict[str, str],
    spark: SparkSession,
    streams: CreateStream,
    topics: CreateTopic,
    workers: Workers,
    tmp_path: Path,
) -> None:
    stream = streams(partitions=2, id=id_from)
    old = topics("old", 2, **{"retention.ms": -1, "message.timestamp.after.max.ms": 2**63 - 1})
    sent = orders(0, 200) + [
        replace(m, timestamp_ms=int(time() * 1000)) for m in hostile(SEED, 200, partitions=2)
    ]
    produce(stream.bootstrap_servers, old, sent)

    made = run(spark, stream, tmp_path / "made", f"topic:{old}")

    assert made.records == len(sent)
    assert 0 < made.ids <= made.records - made.without_id
    fill_stores(stream, workers, tmp_path / "made")
    stream.send(sent)
    # All are known, and none that has no id.
    assert duplicates(stream, workers) == made.records - made.without_id
    assert len(stream.clean()) == made.without_id


@pytest.mark.parametrize("kind", ["csv", matrix("parquet")])
def test_ids_of_files_are_those_of_the_worker(
    kind: str, spark: SparkSession, streams: CreateStream, workers: Workers, tmp_path: Path
) -> None:
    stream = streams(partitions=2)
    known, old = orders(0, 300), orders(300, 320, age_ms=29 * 24 * HOUR_MS)
    rows = {
        "id": [(m.key or b"").decode() for m in known + old],
        "time": [m.timestamp_ms for m in known + old],
        "partition": [m.partition for m in known + old],
    }
    source = tmp_path / f"ids.{kind}"
    if kind == "csv":
        lines = [",".join(map(str, row)) for row in zip(*rows.values(), strict=True)]
        source.write_text("\n".join(["id,time,partition", *lines]) + "\n")
    else:
        parquet.write_table(pa.table(rows), source)

    made = run(spark, stream, tmp_path / "made", str(source))

    assert made == BootstrapResult(records=320, without_id=0, out_of_time=20, ids=300)
    fill_stores(stream, workers, tmp_path / "made")
    stream.send(orders(0, 330))
    assert duplicates(stream, workers) == 300


def written(directory: Path) -> dict[bytes, list[int]]:
    """Return the partitions of each id."""
    found: dict[bytes, list[int]] = {}
    for file in sorted(directory.rglob("*.parquet")):
        number = int(file.parent.name.removeprefix("partition="))
        for one in parquet.ParquetFile(file).read().column("id16").to_pylist():
            found.setdefault(one, []).append(number)
    return found


def staged(tmp_path: Path, stream: TestStream, by: str, id_from: dict[str, str]) -> DedupeStream:
    """Return the stream with two inputs and a repartition; its topics are not needed."""
    found = stream_manifest(
        tmp_path,
        stream.bootstrap_servers,
        f"{stream.name}-staged",
        stream.output_topic,
        input={"topics": [stream.input_topic, "other"]},
        id=id_from,
        repartition={"partitions": 5, "by": by},
    )
    return load_manifest(found.manifest)


def test_with_a_repartition_ids_of_a_topic_go_where_routers_send_them(
    spark: SparkSession, streams: CreateStream, topics: CreateTopic, tmp_path: Path
) -> None:
    stream = streams(partitions=2)
    old = topics("old", 3, **{"retention.ms": -1})
    sent = [
        replace(m, partition=n % 3, key=b"key-%d" % (n % 9)) for n, m in enumerate(orders(0, 60))
    ]
    without_id = replace(sent[0], headers=(), key=None)
    produce(
        stream.bootstrap_servers, old, [*sent, *(replace(m, partition=2) for m in sent), without_id]
    )
    ids = [pack_id(dict(m.headers)[ID_HEADER] or b"") for m in sent]
    expected = {
        "Id": partitions_of_ids(b"".join(ids), 5).tolist(),
        "Key": partitions_of_keys([m.key or b"" for m in sent], 5).tolist(),
    }

    for by, partitions in expected.items():
        of = staged(tmp_path, stream, by, {"from": "Header", "name": ID_HEADER})
        output = tmp_path / f"made-{by}"
        made = bootstrap(spark, of, PastIds(source=f"topic:{old}"), output)
        assert made == BootstrapResult(records=121, without_id=1, out_of_time=0, ids=60)
        assert written(output) == {one: [place] for one, place in zip(ids, partitions, strict=True)}
        assert json.loads((output / "bootstrap-of.json").read_text())["repartition"] == by


@pytest.mark.matrix  # the ids of a topic
def test_with_a_repartition_ids_of_files_go_where_routers_send_them(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    """Whatever partition the file contains."""
    stream = streams(partitions=2)
    source = tmp_path / "ids.csv"
    now = int(time() * 1000)
    source.write_text("id,time,partition\n" + "".join(f"id-{n},{now},9\n" for n in range(50)))
    raw = [f"id-{n}".encode() for n in range(50)]
    ids = [pack_id(one) for one in raw]
    of_ids, of_keys = (
        partitions_of_ids(b"".join(ids), 5).tolist(),
        partitions_of_keys(raw, 5).tolist(),
    )
    header = {"from": "Header", "name": ID_HEADER}

    for by, id_from, expected in (("Id", header, of_ids), ("Key", {"from": "Key"}, of_keys)):
        output = tmp_path / f"made-{by}"
        bootstrap(spark, staged(tmp_path, stream, by, id_from), PastIds(source=str(source)), output)
        assert written(output) == {one: [place] for one, place in zip(ids, expected, strict=True)}

    by_key = staged(tmp_path, stream, "Key", header)
    with pytest.raises(PipelineError, match=r"spec\.repartition\.by: Key .* does not contain them"):
        bootstrap(spark, by_key, PastIds(source=str(source)), tmp_path / "no")
    hashed = PastIds(source=str(source), partition_by=Partitioner.CRC32)
    with pytest.raises(PipelineError, match="--partition-by is for streams without"):
        bootstrap(spark, by_key, hashed, tmp_path / "no")
    own = PastIds(source=f"topic:{stream.input_topic}")
    with pytest.raises(PipelineError, match="would count as delivered"):
        bootstrap(spark, by_key, own, tmp_path / "no")


def test_ids_in_several_partitions_are_counted(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    stream = streams(partitions=3)
    source = tmp_path / "ids.csv"
    now = int(time() * 1000)
    rows = [(n, n % 3) for n in range(20)] + [(n, (n + 1) % 3) for n in range(4)] + [(0, 2), (9, 0)]
    source.write_text("id,time,partition\n" + "".join(f"id-{n},{now},{p}\n" for n, p in rows))

    made = run(spark, stream, tmp_path / "made", str(source))

    assert (made.records, made.ids, made.scattered) == (26, 25, 4)


def test_files_are_sorted_and_hold_each_id_once(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    stream = streams(partitions=2)
    source = tmp_path / "ids.csv"
    source.write_text(
        "id,time\n" + "".join(f"id-{n % 500},{int(time() * 1000)}\n" for n in range(900))
    )

    run(spark, stream, tmp_path / "made", str(source), partition_by=Partitioner.MURMUR2)

    seen = []
    for partition in sorted((tmp_path / "made").glob("partition=*")):
        files = sorted(partition.glob("*.parquet"))
        ids = [
            one for f in files for one in parquet.ParquetFile(f).read().column("id16").to_pylist()
        ]
        assert ids == sorted(set(ids))
        seen += ids
    assert len(seen) == 500


def test_what_can_not_be_used_is_refused(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    stream = streams(partitions=2)
    source = tmp_path / "ids.csv"
    source.write_text("id,time\na,1\n")
    with pytest.raises(
        PipelineError, match=r"name it with --partition-column, or .* --partition-by"
    ):
        run(spark, stream, tmp_path / "made", str(source))
    with pytest.raises(PipelineError, match=r"has no column 'key', it has id, time.*--id-column"):
        run(spark, stream, tmp_path / "made", str(source), id_column="key")
    with pytest.raises(PipelineError, match="would count as delivered"):
        run(spark, stream, tmp_path / "made", f"topic:{stream.input_topic}")
    with pytest.raises(PipelineError, match="exists already"):
        run(spark, stream, tmp_path, str(source))
    source.write_text("id,time,partition\na,1,2\n")
    with pytest.raises(PipelineError, match="partition 2 is not in the input topic, which has 2"):
        run(spark, stream, tmp_path / "made", str(source))
