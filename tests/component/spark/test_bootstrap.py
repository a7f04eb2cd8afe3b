"""The PySpark job makes the worker's ids, and its files fill the worker's stores."""

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
from dedupe_kafka.partitioners import Partitioner
from dedupe_pipeline.errors import PipelineError
from dedupe_pipeline.jobs.bootstrap.job import BootstrapResult, PastIds, bootstrap
from dedupe_worker.bootstrap.request import Request
from dedupe_worker.bootstrap.request import bootstrap as fill
from dedupe_worker.bootstrap.source import Columns
from dedupe_worker.store.state_dir import StateDirectory
from tests.conftest import CreateTopic
from tests.support.checker.record import Message
from tests.support.processes.processes import Workers
from tests.support.spark.session import spark
from tests.support.traffic.hostile import hostile
from tests.support.traffic.streams import TestStream
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
        {"from": "Key"},
        {"from": "Header", "name": ID_HEADER},
        {"from": "JsonPath", "path": ID_PATH},
        {"from": "Content"},
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


@pytest.mark.parametrize("kind", ["csv", "parquet"])
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
