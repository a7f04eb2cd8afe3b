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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_pipeline.errors import LandingRefused, PipelineError
from dedupe_pipeline.jobs.land.job import LandResult, land
from dedupe_pipeline.jobs.land.parquet_sink import lock_checkpoint
from tests.support.checker.record import Message
from tests.support.fixtures import CreateStream
from tests.support.layers import matrix
from tests.support.processes.process_group import process_group
from tests.support.spark import landing
from tests.support.spark.landed import expected, landed
from tests.support.spark.session import spark
from tests.support.traffic import hostile
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import produce_in_transaction

__all__ = ["spark"]

PARTITIONS = 2
SEED = 11
DAY_MS = 86_400_000
DEADLINE_SECONDS = 240
START_SECONDS = 120
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
    assert {path.name.split("=")[0] for path in output.iterdir()} == {"date", ".landing.json"}


@pytest.mark.timeout(900)  # about ten Spark sessions in sequence
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
            assert dying.wait(DEADLINE_SECONDS) == -signal.SIGKILL, step
        seen = landed(output)
        assert seen <= topic, step
        assert seen != topic, f"{step}: nothing was left to land when it was killed"

    land_small(spark, stream, output)
    assert landed(output) == topic


@pytest.mark.matrix
@pytest.mark.timeout(900)  # about ten Spark sessions in sequence
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
        running.join(START_SECONDS)
    assert not running.is_alive()
    assert landed(output) == expected(stream.clean())


def messages_of_one_partition(count: int) -> list[Message]:
    return [replace(message, partition=0) for message in messages(count)]


def wait_for_records(output: Path, count: int) -> None:
    deadline = datetime.now(UTC) + timedelta(seconds=START_SECONDS)
    pause = Event()
    while (found := landed(output).total()) < count:
        assert datetime.now(UTC) < deadline, f"{found} of {count} records landed in time"
        pause.wait(0.1)


def test_values_can_land_parsed_beside_the_raw_ones(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    stream, output = streams(), tmp_path / "landed"
    values = [b'{"n": 1, "more": 2}', b"{", None]
    sent = [Message(0, b"k", value, timestamp_ms=DAY_MS) for value in values]
    produce_in_transaction(stream.bootstrap_servers, stream.output_topic, sent, commit=True)

    land(spark, load_manifest(stream.manifest), output, json_schema="n INT")

    rows = pyarrow.dataset.dataset(output, partitioning="hive").to_table().sort_by("offset")
    assert rows["value"].to_pylist() == values
    assert [row and row["n"] for row in rows["json"].to_pylist()] == [1, None, None]


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
        PipelineError, match=r"Syntax error at or near 'BOGUS'.*run it again"
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
