"""Every job does its work on a Spark cluster whose executors share nothing with the driver but one directory.

Our packages reach the executors by `--py-files` alone. See tests/support/spark/cluster.py for what such a cluster is.
"""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import time
from uuid import uuid4

import pyarrow.dataset
import pytest
import yaml

from tests.support.checker.record import Message, Record
from tests.support.fixtures import CreateStream
from tests.support.patience import wait_for
from tests.support.postgres.aggregate_truth import job as aggregate_job
from tests.support.postgres.aggregate_truth import messages as flights
from tests.support.postgres.aggregate_truth import truth
from tests.support.postgres.aggregated import check
from tests.support.postgres.server import TestDatabase, database, postgres_server
from tests.support.processes.process_group import process_group
from tests.support.spark import reading
from tests.support.spark.cluster import BIN, REPOSITORY, SMALL, SparkCluster, cluster
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import ID_PATH, order, produce, produce_in_transaction

__all__ = ["cluster", "database", "postgres_server"]

pytestmark = pytest.mark.timeout(900)  # several drivers in sequence, and at first a cluster

SEED = 5
PARTITIONS = 2
RECORDS = 1_000
DEADLINE_SECONDS = 400
JSON_ID = {"from": "JsonPath", "path": ID_PATH}


@pytest.fixture(scope="module", name="archive")
def _archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build what executors get."""
    archive = tmp_path_factory.mktemp("package") / "dedupestream.zip"
    done = run([BIN / "dedupe-pipeline", "package", "--output", archive])
    assert done.returncode == 0, done.stderr
    return archive


@pytest.fixture
def stream(streams: CreateStream) -> TestStream:
    return streams(partitions=PARTITIONS, id=JSON_ID)


def environment() -> dict[str, str]:
    """Return a driver's environment: without settings of Spark or Python."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK", "PYSPARK", "PYTHON"))
    }
    # What plans a read of the data source is the driver's python3.
    return {**own, "PATH": f"{BIN}:{own['PATH']}"}


def run(command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def job_command(
    cluster: SparkCluster, archive: Path, job: str, stream: TestStream, *arguments: str | Path
) -> list[str]:
    """Return the command of a job whose driver is here and whose executors are there."""
    # As on YARN: a path without a scheme is not one of this machine.
    foreign = {"spark.hadoop.fs.defaultFS": "hdfs://localhost:9"}
    settings = {**SMALL, **foreign, "spark.submit.pyFiles": str(archive)}
    confs = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command = [
        BIN / "dedupe-pipeline",
        job,
        stream.manifest,
        *arguments,
        "--master",
        cluster.master,
    ]
    return [str(part) for part in (*command, *confs)]


def orders(count: int) -> list[Message]:
    return [order(SEED, number, partitions=PARTITIONS) for number in range(count)]


def fill_output(stream: TestStream, messages: Sequence[Message]) -> None:
    """Commit messages in two transactions, with an aborted one between them."""
    half = len(messages) // 2
    for part, commit in ((messages[:half], True), (messages, False), (messages[half:], True)):
        produce_in_transaction(stream.bootstrap_servers, stream.output_topic, part, commit=commit)


def landed(output: Path) -> Counter[tuple[object, ...]]:
    rows = pyarrow.dataset.dataset(output, format="parquet", partitioning="hive").to_table()
    return Counter((r["partition"], r["offset"], r["key"], r["value"]) for r in rows.to_pylist())


def expected(records: Sequence[Record]) -> Counter[tuple[object, ...]]:
    return Counter((r.partition, r.offset, r.key, r.value) for r in records)


# -- the archive ---------------------------------------------------------------------------------------


@pytest.mark.matrix  # the commands of the page
def test_executors_import_our_code_from_the_archive_and_from_nowhere_else(
    cluster: SparkCluster, archive: Path
) -> None:
    """What tasks import needs Spark's Python, the archive and EXECUTOR_PACKAGES."""
    modules = "dedupe_pipeline.datasource.source dedupe_pipeline.udfs.encode dedupe_pipeline.udfs.json_id "
    modules += "dedupe_ids.jump_hash dedupe_kafka.partitioners"
    script = f"import importlib; [importlib.import_module(name) for name in {modules.split()}]"
    libraries = (cluster.spark_home / "python/lib").glob("*.zip")

    def imported(*paths: Path) -> subprocess.CompletedProcess[str]:
        path = ":".join(map(str, paths))
        return run(["env", f"PYTHONPATH={path}", cluster.python, "-c", script])

    spark_alone = list(libraries)
    assert "No module named 'dedupe_pipeline'" in imported(*spark_alone).stderr
    assert imported(*spark_alone, archive).stderr == ""


# -- land ----------------------------------------------------------------------------------------------


@pytest.mark.matrix  # the parts on executors' disks in test_land.py
@pytest.mark.parametrize("table", ["delta", "iceberg"])
def test_land_refuses_a_table_that_executors_do_not_share(
    cluster: SparkCluster, archive: Path, stream: TestStream, tmp_path: Path, table: str
) -> None:
    where = {
        "delta": ["--table", f"file://{tmp_path}/orders"],  # of /tmp each worker has its own
        "iceberg": ["--table", "lake.shop.orders", "--warehouse", str(tmp_path)],
    }
    fill_output(stream, orders(RECORDS))

    refused = run(job_command(cluster, archive, "land", stream, "--format", table, *where[table]))

    assert refused.returncode == 2, refused.stderr
    assert "all machines share" in refused.stderr
    assert not list(tmp_path.rglob("*.parquet"))
    assert not list(tmp_path.rglob("snap-*.avro"))  # a manifest list: a commit of Iceberg with rows


@pytest.mark.matrix  # the one of a table
def test_land_refuses_an_output_that_executors_do_not_share(
    cluster: SparkCluster, archive: Path, stream: TestStream, tmp_path: Path
) -> None:
    output = tmp_path / "landed"  # below /tmp, of which each worker has its own
    fill_output(stream, orders(RECORDS))

    refused = run(job_command(cluster, archive, "land", stream, "--output", output))

    assert refused.returncode == 2, refused.stdout
    assert "all machines share" in refused.stderr
    assert not list(output.glob("date=*"))
    assert not list((tmp_path / "landed.checkpoint/spark/commits").glob("[0-9]*"))


@pytest.mark.matrix  # that of the page lands on executors; test_land.py kills
def test_land_killed_in_the_middle_is_exactly_once_on_a_shared_directory(
    cluster: SparkCluster, archive: Path, stream: TestStream
) -> None:
    output = cluster.shared / f"landed-{uuid4().hex[:8]}"
    fill_output(stream, orders(RECORDS))
    command = job_command(cluster, archive, "land", stream, "--output", output)
    small = [*command, "--max-offsets-per-trigger", "200"]

    with process_group(small, environment()) as dying:
        wait_for(
            lambda: any(output.glob("date=*/batch=*")),
            "a batch has landed",
            deadline_seconds=DEADLINE_SECONDS,
        )
        assert dying.poll() is None
    seen = landed(output)
    done = run(command)

    assert done.returncode == 0, done.stderr
    assert 0 < seen.total() < RECORDS
    assert landed(output) == expected(stream.clean())


# -- audit ---------------------------------------------------------------------------------------------


@pytest.mark.matrix  # that of the page runs an audit on executors
@pytest.mark.parametrize("lost", [1, 0])
def test_audit_computes_json_ids_on_the_executors(
    cluster: SparkCluster, archive: Path, stream: TestStream, tmp_path: Path, lost: int
) -> None:
    sent, result = orders(RECORDS), tmp_path / "audit.json"
    stream.send([*sent, *sent[:100]])
    fill_output(stream, sent[lost:])

    done = run(job_command(cluster, archive, "audit", stream, "--json", result))

    assert done.returncode == lost, done.stderr
    partitions = json.loads(result.read_text())["partitions"]
    assert sum(each["lost"] for each in partitions) == lost


# -- aggregate -----------------------------------------------------------------------------------------


@pytest.mark.matrix  # those of tests/component/postgres
@pytest.mark.parametrize("killed", [False, True], ids=["not killed", "killed"])
def test_aggregate_counts_exactly_once(  # noqa: PLR0917 (pytest passes them by name)
    cluster: SparkCluster,
    archive: Path,
    stream: TestStream,
    database: TestDatabase,
    tmp_path: Path,
    killed: bool,
) -> None:
    wanted = aggregate_job("flights")
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump({"table": wanted.table, **wanted.definition()}))
    fill_output(stream, list(flights(SEED, RECORDS, partitions=PARTITIONS)))
    command = job_command(
        cluster, archive, "aggregate", stream, file, "--postgres-url", database.url
    )

    def counted() -> bool:
        offsets = "dedupestream_offsets"
        return database.has(offsets) and database.rows(f"SELECT sum(records) FROM {offsets}") > [  # noqa: S608 # a constant
            (0,)
        ]

    if killed:
        with process_group([*command, "--max-offsets-per-trigger", "200"], environment()) as dying:
            wait_for(counted, "a batch is counted", deadline_seconds=DEADLINE_SECONDS)
            assert dying.poll() is None
    done = run(command)

    assert done.returncode == 0, done.stderr
    assert "added 0 records" not in done.stdout
    check(database, wanted, truth(stream.clean(), wanted))


# -- bootstrap -----------------------------------------------------------------------------------------


@pytest.fixture(name="to_bootstrap")
def _to_bootstrap(streams: CreateStream) -> TestStream:
    """Provide a stream to be repartitioned, whose output has some records twice."""
    stream = streams(partitions=1, id=JSON_ID, repartition={"partitions": PARTITIONS})
    now = int(time() * 1000)
    sent = [replace(message, partition=0, timestamp_ms=now) for message in orders(RECORDS)]
    produce(stream.bootstrap_servers, stream.output_topic, [*sent, *sent[:100]])
    return stream


@pytest.mark.matrix  # test_bootstrap.py
def test_bootstrap_writes_the_ids_to_a_directory_that_all_share(
    cluster: SparkCluster, archive: Path, to_bootstrap: TestStream
) -> None:
    """The ids are hashed, and their partitions computed, on the executors."""
    shared = cluster.shared / f"ids-{uuid4().hex[:8]}"
    source = ("--from", f"topic:{to_bootstrap.output_topic}", "--output", shared)

    done = run(job_command(cluster, archive, "bootstrap", to_bootstrap, *source))

    assert done.returncode == 0, done.stderr
    files = sorted(map(str, shared.glob("partition=*/*.parquet")))
    table = pyarrow.dataset.dataset(files, partitioning="hive").to_table()
    assert len(set(table["id16"].to_pylist())) == len(table) == RECORDS
    assert len({Path(file).parent for file in files}) == PARTITIONS
    assert (shared / "bootstrap-of.json").exists()


@pytest.mark.matrix
def test_bootstrap_refuses_an_output_that_executors_do_not_share(
    cluster: SparkCluster, archive: Path, to_bootstrap: TestStream, tmp_path: Path
) -> None:
    source = ("--from", f"topic:{to_bootstrap.output_topic}", "--output", tmp_path / "ids")

    refused = run(job_command(cluster, archive, "bootstrap", to_bootstrap, *source))

    assert refused.returncode == 2
    assert "all machines share" in refused.stderr
    assert not (tmp_path / "ids/bootstrap-of.json").exists()


# -- the data source -----------------------------------------------------------------------------------


@pytest.mark.matrix  # the commands of the page
@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("batch", 7), ("stream", None), ("batch", None), ("stream", 7)],
)
def test_the_data_source_reads_on_the_executors(  # noqa: PLR0917 (pytest passes them by name)
    cluster: SparkCluster,
    archive: Path,
    stream: TestStream,
    tmp_path: Path,
    kind: str,
    wanted: int | None,
) -> None:
    output, checkpoint = tmp_path / "rows.json", cluster.shared / f"checkpoint-{uuid4().hex[:8]}"
    fill_output(stream, orders(RECORDS))
    confs = [part for name, value in SMALL.items() for part in ("--conf", f"{name}={value}")]
    submit: list[str | Path] = [
        BIN / "spark-submit",
        "--master",
        cluster.master,
        *confs,
        "--py-files",
        archive,
    ]
    read: list[str | Path] = [str(reading.__file__), "source", kind, stream.manifest]
    options = ["jsonPath=$.order.number", *([] if wanted is None else [f"filter={wanted}"])]

    done = run([*submit, *read, output, checkpoint, *options])

    assert done.returncode == 0, done.stderr
    rows = sorted(json.loads(line) for line in output.read_text().splitlines())
    numbered = [(record, json.loads(record.value or b"")) for record in stream.clean()]
    assert rows == sorted(
        [r.partition, r.offset, (r.key or b"").hex(), (r.value or b"").hex()]
        for r, value in numbered
        if wanted in {None, value["order"]["number"]}
    )


# -- the page ------------------------------------------------------------------------------------------


def test_the_commands_of_the_page_run(
    cluster: SparkCluster, stream: TestStream, tmp_path: Path
) -> None:
    page = (REPOSITORY / "docs/spark-clusters.md").read_text()
    section = page.split("## Standalone")[1].split("\n## ")[0]
    commands = "\n".join(block.split("```")[0] for block in section.split("```sh\n")[1:])
    stream.send(orders(50))
    fill_output(stream, orders(50))
    confs = " ".join(f"--conf '{name}={value}'" for name, value in SMALL.items())
    for name, value in {
        "spark://master:7077": f"{cluster.master} {confs}",
        "/srv/lake": str(cluster.shared / f"lake-{uuid4().hex[:8]}"),
        "stream.yaml": str(stream.manifest),
    }.items():
        assert name in commands
        commands = commands.replace(name, value)

    done = run(["bash", "-euc", f"cd {tmp_path}\n{commands}"])

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "landed 50 records" in done.stdout
    assert "each message exactly once" in done.stdout
