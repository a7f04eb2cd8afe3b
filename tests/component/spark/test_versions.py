"""Every command, and every way to read from Python, on each supported Spark that is not the default.

Each runs as a process of an environment with that pyspark, in which this project's wheel is installed.
"""

import json
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import time

import pyarrow.dataset
import pytest
import yaml

from dedupe_ids.extract import pack_id
from dedupe_pipeline.runtime.spark_versions import SUPPORTED
from tests.support.checker.record import Message, Record
from tests.support.fixtures import CreateStream
from tests.support.postgres.aggregate_truth import job as aggregate_job
from tests.support.postgres.aggregate_truth import messages as flights
from tests.support.postgres.aggregate_truth import truth
from tests.support.postgres.aggregated import check
from tests.support.postgres.server import TestDatabase, database, postgres_server
from tests.support.spark import reading
from tests.support.spark.environments import SparkEnvironment, build_wheel, environment, pinned
from tests.support.spark.landed import expected, landed
from tests.support.spark.session import SMALL
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import ID_PATH, order, produce, produce_in_transaction

__all__ = ["database", "postgres_server"]

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.timeout(3_600),  # the first test of a version downloads 400 MB and unpacks it
]

SEED = 7
RECORDS = 600
DEFAULT = "4.1"
JSON_ID = {"from": "JsonPath", "path": ID_PATH}


@pytest.fixture(scope="module", name="wheel")
def _wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module", params=pinned(), name="on")
def _on(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> SparkEnvironment:
    version = str(request.param)
    return environment(version, wheel, tmp_path_factory.mktemp(f"wheel-{version}"))


@pytest.fixture
def stream(streams: CreateStream) -> TestStream:
    return streams(partitions=2, id=JSON_ID)


def minor(on: SparkEnvironment) -> tuple[int, ...]:
    return tuple(map(int, on.pyspark.split(".")[:2]))


def command(
    on: SparkEnvironment, job: str, stream: TestStream, *arguments: str | Path
) -> subprocess.CompletedProcess[str]:
    confs = [part for name, value in SMALL.items() for part in ("--conf", f"{name}={value}")]
    words = ("-m", "dedupe_pipeline", job, stream.manifest, *arguments, "--master", "local[2]")
    return on.run([*words, *confs])


def orders(count: int = RECORDS) -> list[Message]:
    return [order(SEED, number, partitions=2) for number in range(count)]


def fill_output(stream: TestStream, messages: Sequence[Message]) -> None:
    """Commit messages, after an aborted transaction of the same."""
    for commit in (False, True):
        produce_in_transaction(
            stream.bootstrap_servers, stream.output_topic, messages, commit=commit
        )


def rows(records: Sequence[Record]) -> list[list[object]]:
    return sorted(
        [r.partition, r.offset, (r.key or b"").hex(), (r.value or b"").hex()] for r in records
    )


def test_each_supported_version_is_tried() -> None:
    assert {".".join(version.split(".")[:2]) for version in pinned()} == {*SUPPORTED} - {DEFAULT}


def test_land(on: SparkEnvironment, stream: TestStream, tmp_path: Path) -> None:
    output = tmp_path / "landed"
    odd = replace(order(SEED, RECORDS, partitions=2), value=b"\xff\xfe{", partition=0)
    fill_output(stream, [*orders(), odd])
    schema = "attempt INT, `order` STRUCT<id: STRING, number: INT>"
    options = ("--output", output, "--max-offsets-per-trigger", "500", "--json-schema", schema)

    done = [command(on, "land", stream, *options) for _ in range(2)]

    assert [each.returncode for each in done] == [0, 0], done[0].stderr
    assert "values that are not of --json-schema: 1" in done[0].stdout
    assert "landed 0 records" in done[1].stdout
    assert landed(output) == expected(stream.clean())
    table = pyarrow.dataset.dataset(output, format="parquet", partitioning="hive").to_table()
    parsed = Counter(row and row["order"]["number"] for row in table["json"].to_pylist())
    assert parsed == Counter([None, *range(RECORDS)])
    assert Counter(table["_corrupt"].to_pylist()) == {None: RECORDS, "\ufffd\ufffd{": 1}


def test_audit(on: SparkEnvironment, stream: TestStream, tmp_path: Path) -> None:
    sent, result, page = orders(), tmp_path / "audit.json", tmp_path / "audit.html"
    stream.send([*sent, *sent[:100]])
    fill_output(stream, sent[1:])

    done = command(on, "audit", stream, "--json", result, "--html", page)

    assert done.returncode == 1, done.stderr
    partitions = json.loads(result.read_text())["partitions"]
    assert [
        sum(each[name] for each in partitions) for name in ("rawRecords", "cleanRecords", "lost")
    ] == [
        RECORDS + 100,
        RECORDS - 1,
        1,
    ]
    assert "<svg" in page.read_text()


def test_aggregate(
    on: SparkEnvironment, stream: TestStream, database: TestDatabase, tmp_path: Path
) -> None:
    wanted = aggregate_job("flights")
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump({"table": wanted.table, **wanted.definition()}))
    fill_output(stream, list(flights(SEED, RECORDS, partitions=2)))
    options = (file, "--postgres-url", database.url, "--max-offsets-per-trigger", "500")

    done = [command(on, "aggregate", stream, *options) for _ in range(2)]

    assert [each.returncode for each in done] == [0, 0], done[0].stderr
    assert "added 0 records" in done[1].stdout
    check(database, wanted, truth(stream.clean(), wanted))


def test_bootstrap(on: SparkEnvironment, streams: CreateStream, tmp_path: Path) -> None:
    stream = streams(partitions=1, id=JSON_ID, repartition={"partitions": 2})
    now = int(time() * 1000)
    sent = [replace(message, partition=0, timestamp_ms=now) for message in orders()]
    produce(stream.bootstrap_servers, stream.output_topic, [*sent, *sent[:100]])
    output = tmp_path / "ids"

    done = command(
        on, "bootstrap", stream, "--from", f"topic:{stream.output_topic}", "--output", output
    )

    assert done.returncode == 0, done.stderr
    files = sorted(map(str, output.glob("partition=*/*.parquet")))
    table = pyarrow.dataset.dataset(files, partitioning="hive").to_table()
    ids = {pack_id(json.loads(message.value or b"")["order"]["id"].encode()) for message in sent}
    assert Counter(table["id16"].to_pylist()) == Counter(ids)
    assert len({Path(file).parent for file in files}) == 2


@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_read_clean(on: SparkEnvironment, stream: TestStream, tmp_path: Path, kind: str) -> None:
    fill_output(stream, orders())

    done = read(on, stream, tmp_path, "clean", kind)

    assert done.returncode == 0, done.stderr
    assert found(tmp_path) == rows(stream.clean())


@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_the_data_source(
    on: SparkEnvironment, stream: TestStream, tmp_path: Path, kind: str
) -> None:
    limited = kind == "stream" and minor(on) >= (4, 2)
    options = ["jsonPath=$.order.number", *(["maxRecordsPerTrigger=250"] if limited else [])]
    fill_output(stream, orders())

    done = read(on, stream, tmp_path, "source", kind, *options)

    if minor(on) < (4, 0):
        assert done.returncode != 0
        assert "the data source dedupestream needs Spark 4.0 or newer" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert found(tmp_path) == rows(stream.clean())
    if kind == "stream":
        (batches,) = re.findall(r"batches (\d+)", done.stdout)
        assert (int(batches) > 2) == limited


def test_limits_before_spark_4_2_are_refused_by_name(
    on: SparkEnvironment, stream: TestStream, tmp_path: Path
) -> None:
    if not (4, 0) <= minor(on) < (4, 2):
        return
    fill_output(stream, orders(10))

    done = read(on, stream, tmp_path, "source", "stream", "maxRecordsPerTrigger=250")

    assert "option maxRecordsPerTrigger needs Spark 4.2 or newer" in done.stderr


def read(
    on: SparkEnvironment, stream: TestStream, directory: Path, how: str, kind: str, *options: str
) -> subprocess.CompletedProcess[str]:
    output = directory / "rows.json"
    words = (reading.__file__, how, kind, stream.manifest, output, directory / "checkpoint")
    return on.run([*words, *options])


def found(directory: Path) -> list[list[object]]:
    return sorted(json.loads(line) for line in (directory / "rows.json").read_text().splitlines())
