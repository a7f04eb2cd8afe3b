"""`land` writes exactly the topic's records, as any Parquet reader sees them."""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from queue import Queue
from threading import Event, Thread

import pyarrow.dataset
import pytest
from pyspark.sql import DataFrame, SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_kafka.errors import StreamError
from dedupe_pipeline.errors import LandingRefused, NotShared, PipelineError
from dedupe_pipeline.jobs.land import job
from dedupe_pipeline.jobs.land.job import LandResult, land
from dedupe_pipeline.jobs.land.parquet_sink import lock_checkpoint
from dedupe_pipeline.jobs.streaming import committed_batch
from tests.support.checker.record import Message
from tests.support.fixtures import CreateStream
from tests.support.layers import matrix
from tests.support.patience import HANG_SECONDS, wait_for
from tests.support.processes.process_group import process_group
from tests.support.spark import landing
from tests.support.spark.landed import expected, landed
from tests.support.spark.session import spark
from tests.support.traffic import hostile
from tests.support.traffic.streams import TestStream
from tests.support.traffic.topic_changes import add_partitions, create_topic, delete_topic
from tests.support.traffic.traffic import produce_in_transaction

__all__ = ["spark"]

PARTITIONS = 2
SEED = 11
DAY_MS = 86_400_000
HALF_PUBLISHED = ("between two dates", "before Spark's commit")


def messages(count: int) -> list[Message]:
    """Yield hostile messages, each a third of a day later: a batch has several dates."""
    sent = hostile.hostile(SEED, count, partitions=PARTITIONS)
    return [
        # Large messages would only make the test slow.
        replace(m, timestamp_ms=(i % 9) * DAY_MS // 3 + i, value=m.value and m.value[:100])
        for i, m in enumerate(sent, start=1)
    ]


def fill(stream: TestStream, count: int) -> None:
    """Commit messages in two transactions, with an aborted one between them."""
    sent = messages(count)
    half = len(sent) // 2
    for part, commit in ((sent[:half], True), (sent, False), (sent[half:], True)):
        produce_in_transaction(stream.bootstrap_servers, stream.output_topic, part, commit=commit)


def process(
    stream: TestStream, output: Path, *step: str
) -> AbstractContextManager[subprocess.Popen[str]]:
    """Start a landing process in its own group, which is killed at the end."""
    command = [
        sys.executable,
        "-m",
        "tests.support.spark.landing",
        str(stream.manifest),
        str(output),
    ]
    return process_group([*command, *step])


def land_small(spark: SparkSession, stream: TestStream, output: Path) -> LandResult:
    """Continue in this process, with the batch size of the killed process."""
    return land(
        spark,
        load_manifest(stream.manifest),
        output,
        max_offsets_per_trigger=landing.MAX_OFFSETS_PER_TRIGGER,
    )


@pytest.mark.proof
def test_what_is_committed_lands_once_and_unchanged(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    stream, output = streams(partitions=PARTITIONS), tmp_path / "landed"
    fill(stream, 1_000)

    first = land_small(spark, stream, output)
    again = land_small(spark, stream, output)

    assert landed(output) == expected(stream.clean())
    assert (first.records, first.batches > 1) == (1_000, True)
    assert again == LandResult(batches=0, records=0)
    assert {path.name.split("=")[0] for path in output.iterdir()} == {
        "date",
        ".landing.json",
        ".batches",
    }


def test_a_relative_path_is_one_of_this_process(
    spark: SparkSession, streams: CreateStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JVM has another working directory, that of its start."""
    stream = streams(partitions=PARTITIONS)
    fill(stream, 20)
    monkeypatch.chdir(tmp_path)

    land_small(spark, stream, Path("landed"))

    assert landed(tmp_path / "landed") == expected(stream.clean())
    assert (tmp_path / "landed.checkpoint" / "spark" / "commits" / "0").exists()


@pytest.mark.proof
@pytest.mark.parametrize(
    "steps", [HALF_PUBLISHED, matrix(landing.STEPS)], ids=["half published", "each"]
)
def test_killed_at_each_step_nothing_lands_twice_or_not_at_all(
    spark: SparkSession, streams: CreateStream, tmp_path: Path, steps: Sequence[str]
) -> None:
    """Kill one landing at step after step; each restart repairs the previous run."""
    stream, output = streams(partitions=PARTITIONS), tmp_path / "landed"
    fill(stream, 3_000)
    topic = expected(stream.clean())

    for step in steps:
        with process(stream, output, step) as dying:
            assert dying.wait(HANG_SECONDS) == -signal.SIGKILL, step
        seen = landed(output)
        assert seen <= topic, step
        assert seen != topic, f"{step}: nothing was left to land when it was killed"

    land_small(spark, stream, output)
    assert landed(output) == topic


@pytest.mark.matrix
def test_killed_at_random_moments_nothing_lands_twice_or_not_at_all(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    """Kill Python alone or with its JVM, at any moment from the first batch on."""
    seed = int(os.environ.get("DEDUPE_TEST_SEED", "20261121"))
    print(f"DEDUPE_TEST_SEED={seed}")
    rng = random.Random(seed)
    stream, output = streams(partitions=PARTITIONS), tmp_path / "landed"
    fill(stream, 20_000)
    topic = expected(stream.clean())

    for _ in range(3):
        with process(stream, output) as dying:
            assert dying.stdout is not None
            assert dying.stdout.readline() == "landing\n"
            try:
                dying.wait(rng.uniform(0.5, 8))
            except subprocess.TimeoutExpired:
                (os.kill if rng.random() < 0.5 else os.killpg)(dying.pid, signal.SIGKILL)
        assert landed(output) <= topic

    land(spark, load_manifest(stream.manifest), output)
    assert landed(output) == topic


def test_it_goes_on_until_it_is_stopped(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    stream, output, stop = streams(), tmp_path / "landed", Event()
    produce_in_transaction(
        stream.bootstrap_servers, stream.output_topic, messages_of_one_partition(50), commit=True
    )
    running = Thread(
        target=land,
        args=(spark, load_manifest(stream.manifest), output),
        kwargs={"every": timedelta(milliseconds=200), "stop": stop},
    )
    running.start()
    try:
        wait_for_records(output, 50)
        produce_in_transaction(
            stream.bootstrap_servers,
            stream.output_topic,
            messages_of_one_partition(30),
            commit=True,
        )
        wait_for_records(output, 80)
    finally:
        stop.set()
        running.join(HANG_SECONDS)
    assert not running.is_alive()
    assert landed(output) == expected(stream.clean())


def messages_of_one_partition(count: int) -> list[Message]:
    return [replace(message, partition=0) for message in messages(count)]


def wait_for_records(output: Path, count: int) -> None:
    wait_for(lambda: landed(output).total() >= count, f"{count} records landed", poll_seconds=0.1)


def test_values_can_land_parsed_beside_the_raw_ones(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    """What is not of the schema is null in `json`, and its text is in `_corrupt`."""
    stream, output = streams(), tmp_path / "landed"
    read = {
        b'{"n": 1, "more": 2, "corrupt": "c"}': {"n": 1, "corrupt": "c"},
        b'{"n": null}': {"n": None, "corrupt": None},
        b"{}": {"n": None, "corrupt": None},
    }
    unread = [
        *(b"{", b"", b" ", b"null", b"1", b"[]", b'[{"n": 1}]', b"\xff\xfe"),
        *(b'{"n": "x", "corrupt": "c"}', b'{"n": 1.5}', b'{"n": 99999999999}', b'{"n": 1'),
    ]
    values = [*read, *unread, None]
    sent = [Message(0, b"k", value, timestamp_ms=DAY_MS) for value in values]
    produce_in_transaction(stream.bootstrap_servers, stream.output_topic, sent, commit=True)

    result = land(
        spark, load_manifest(stream.manifest), output, json_schema="n INT, corrupt STRING"
    )

    rows = pyarrow.dataset.dataset(output, partitioning="hive").to_table().sort_by("offset")
    assert rows["value"].to_pylist() == values
    assert rows["json"].to_pylist() == [*read.values(), *([None] * len(unread)), None]
    texts = [value.decode(errors="replace") for value in unread]
    assert rows["_corrupt"].to_pylist() == [*([None] * len(read)), *texts, None]
    assert (result.records, result.corrupt) == (len(values), len(unread))


def test_a_schema_that_is_no_list_of_columns_is_refused(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    stream = streams(partitions=PARTITIONS)
    fill(stream, 20)

    with pytest.raises(LandingRefused, match="ARRAY<INT> is no list of columns"):
        land(spark, load_manifest(stream.manifest), tmp_path / "out", json_schema="ARRAY<INT>")


def test_an_empty_topic_lands_nothing_and_can_be_landed_again(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    stream, output = streams(), tmp_path / "landed"

    for _ in range(2):
        assert land_small(spark, stream, output).records == 0
        assert landed(output).total() == 0


def test_a_batch_that_fails_is_explained_in_a_line(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    stream, output = streams(partitions=PARTITIONS), tmp_path / "landed"
    fill(stream, 20)

    with pytest.raises(
        PipelineError, match=r"Unsupported data type \"BOGUS\".*run it again"
    ) as failed:
        land(spark, load_manifest(stream.manifest), output, json_schema="n BOGUS")

    assert "\n" not in str(failed.value)
    assert land_small(spark, stream, output).records == 20


def test_a_lost_or_foreign_checkpoint_is_refused(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    stream, output = streams(partitions=PARTITIONS), tmp_path / "landed"
    fill(stream, 100)
    land_small(spark, stream, output)
    checkpoint = tmp_path / "landed.checkpoint"

    with lock_checkpoint(checkpoint), pytest.raises(LandingRefused, match="another process"):
        land_small(spark, stream, output)
    with pytest.raises(LandingRefused, match="bring the output back"):
        land(spark, load_manifest(stream.manifest), tmp_path / "new", checkpoint=checkpoint)
    shutil.rmtree(checkpoint)
    with pytest.raises(LandingRefused, match="another checkpoint"):
        land_small(spark, stream, output)
    assert landed(output) == expected(stream.clean())


def test_parts_on_the_disks_of_executors_are_not_published(
    spark: SparkSession, streams: CreateStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster without a shared file system, the driver finds fewer files than were written."""
    stream, output = streams(partitions=PARTITIONS), tmp_path / "landed"
    fill(stream, 100)

    def stage_elsewhere(rows: DataFrame, staging: Path) -> None:
        stage(rows, staging)
        elsewhere = next(staging.glob("date=*/*.parquet"))
        elsewhere.rename(tmp_path / elsewhere.name)

    stage = job.stage
    monkeypatch.setattr(job, "stage", stage_elsewhere)
    with pytest.raises(NotShared, match=r"file system that all machines share.*Nothing was"):
        land_small(spark, stream, output)
    assert not list(output.iterdir())
    assert committed_batch(tmp_path / "landed.checkpoint" / "spark") is None

    monkeypatch.setattr(job, "stage", stage)
    land_small(spark, stream, output)
    assert landed(output) == expected(stream.clean())


def test_an_older_checkpoint_lands_nothing_twice_and_skips_nothing(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    """It was restored from a backup: equal batches are skipped, others refused."""
    stream, output = streams(partitions=PARTITIONS), tmp_path / "landed"
    checkpoint, backup = tmp_path / "landed.checkpoint", tmp_path / "backup"
    fill(stream, 600)
    land_small(spark, stream, output)
    shutil.copytree(checkpoint, backup)
    fill(stream, 600)
    land_small(spark, stream, output)
    of_all = landed(output)

    shutil.rmtree(checkpoint)
    shutil.copytree(backup, checkpoint)
    land_small(spark, stream, output)
    assert landed(output) == of_all == expected(stream.clean())

    fill(stream, 600)
    shutil.rmtree(checkpoint)
    shutil.copytree(backup, checkpoint)
    with pytest.raises(LandingRefused, match=r"batch .* plans it with .*bring the newest"):
        land(spark, load_manifest(stream.manifest), output)
    assert landed(output) == of_all


def test_a_topic_that_is_created_again_is_refused(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    """Its offsets are of other records, also where Spark finds none missing."""
    stream, output = streams(partitions=PARTITIONS), tmp_path / "landed"
    fill(stream, 50)
    land_small(spark, stream, output)
    of_first = landed(output)

    delete_topic(stream, stream.output_topic)
    create_topic(stream, stream.output_topic, PARTITIONS)
    fill(stream, 500)  # more than before: the offsets of the checkpoint exist
    with pytest.raises(LandingRefused, match="was deleted and created again since it was landed"):
        land_small(spark, stream, output)
    assert landed(output) == of_first


def test_a_topic_that_is_created_again_during_a_run_is_refused(
    spark: SparkSession, streams: CreateStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the plan of a batch and its read: the offsets exist, and are of other records."""
    stream, output = streams(partitions=PARTITIONS), tmp_path / "landed"
    fill(stream, 1_000)
    batches = 0

    def stage_of_another(rows: DataFrame, staging: Path) -> None:
        nonlocal batches
        batches += 1
        if batches == 2:
            delete_topic(stream, stream.output_topic)
            create_topic(stream, stream.output_topic, PARTITIONS)
            fill(stream, 2_000)
        stage(rows, staging)

    stage = job.stage
    of_first = expected(stream.clean())
    monkeypatch.setattr(job, "stage", stage_of_another)
    with pytest.raises(LandingRefused, match="deleted and created again while it was landed"):
        land_small(spark, stream, output)

    monkeypatch.setattr(job, "stage", stage)
    with pytest.raises(LandingRefused, match="deleted and created again since it was landed"):
        land_small(spark, stream, output)
    found = landed(output)
    assert 0 < found.total() < of_first.total()
    assert found <= of_first


@pytest.mark.matrix  # the one during a run
def test_a_topic_that_is_created_again_between_two_batches_lands_nothing(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    """Spark may miss its topic, or plan with the new one: either ends the run."""
    stream, output, failed = streams(), tmp_path / "landed", Queue[StreamError]()
    servers, topic = stream.bootstrap_servers, stream.output_topic
    produce_in_transaction(servers, topic, messages_of_one_partition(50), commit=True)
    of_first = expected(stream.clean())

    def run() -> None:
        try:
            every = timedelta(milliseconds=200)
            land(spark, load_manifest(stream.manifest), output, every=every, stop=stop)
        except StreamError as error:
            failed.put(error)

    stop = Event()
    running = Thread(target=run)
    running.start()
    try:
        wait_for_records(output, 50)
        delete_topic(stream, topic)
        create_topic(stream, topic)
        produce_in_transaction(servers, topic, messages_of_one_partition(200), commit=True)
        error = failed.get(timeout=HANG_SECONDS)
    finally:
        stop.set()
        running.join(HANG_SECONDS)
    print(f"the run ended with: {error}")
    assert landed(output) == of_first


def test_records_of_partitions_that_are_added_meanwhile_land_once(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    stream, output, stop = streams(), tmp_path / "landed", Event()
    servers, topic = stream.bootstrap_servers, stream.output_topic
    produce_in_transaction(servers, topic, messages_of_one_partition(50), commit=True)
    running = Thread(
        target=land,
        args=(spark, load_manifest(stream.manifest), output),
        kwargs={"every": timedelta(milliseconds=200), "stop": stop},
    )
    running.start()
    try:
        wait_for_records(output, 50)
        add_partitions(servers, topic, 3)
        for number in (1, 2, 0):
            sent = [replace(message, partition=number) for message in messages(30)]
            produce_in_transaction(servers, topic, sent, commit=True)
        wait_for_records(output, 140)
    finally:
        stop.set()
        running.join(HANG_SECONDS)
    assert not running.is_alive()
    add_partitions(servers, topic, 4)
    sent = [replace(message, partition=3) for message in messages(30)]
    produce_in_transaction(servers, topic, sent, commit=True)

    land_small(spark, stream, output)
    assert landed(output) == expected(stream.clean())
