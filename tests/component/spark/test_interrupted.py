"""A job that a signal ends before it is done says how far it came, and does not end with 0."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import psutil
import pytest
from pyspark.sql import Row, SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_crds.stop_signals import Interrupted, StopSignals
from dedupe_pipeline.interruptible import interruptible
from dedupe_pipeline.jobs.land.job import land
from tests.support.fixtures import CreateStream
from tests.support.layers import matrix
from tests.support.patience import wait_for
from tests.support.processes.process_group import process_group
from tests.support.spark.landed import expected, landed
from tests.support.spark.session import LOCAL, spark
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import produce_in_transaction, retries

__all__ = ["spark"]

SEED = 20
MESSAGES = 3_000
BATCH = 50
DEADLINE_SECONDS = 240


def fill(stream: TestStream, count: int) -> None:
    messages = retries(SEED, count, partitions=2)
    produce_in_transaction(stream.bootstrap_servers, stream.output_topic, messages, commit=True)


@contextmanager
def running(
    log: Path, stream: TestStream, job: str, *options: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a command as a user does; what it prints is in `log`."""
    command = (sys.executable, "-m", "dedupe_pipeline", job, str(stream.manifest))
    shell = ("/bin/sh", "-c", 'exec "$@" >"$0" 2>&1', str(log))
    with process_group([*shell, *command, *LOCAL, *options]) as process:
        yield process


def ended(process: subprocess.Popen[str], number: signal.Signals) -> int:
    """Send a signal to the process alone, as Kubernetes does; return its exit code."""
    process.send_signal(number)
    return process.wait(DEADLINE_SECONDS)


@pytest.mark.matrix  # the audit that is stopped
@pytest.mark.timeout(900)  # two Spark sessions in sequence
def test_a_landing_that_is_stopped_early_ends_with_the_code_of_the_signal(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    stream, output, log = streams(partitions=2), tmp_path / "landed", tmp_path / "log"
    fill(stream, MESSAGES)
    options = (f"--output={output}", f"--max-offsets-per-trigger={BATCH}")
    seen = 0

    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        with running(log, stream, "land", *options) as process:
            wait_for(lambda: landed(output).total() > seen, "a batch", explain=log.read_text)  # noqa: B023
            assert ended(process, number) == code, log.read_text()
        seen = landed(output).total()
        assert seen < MESSAGES, "it was stopped too late to prove anything"
        said = rf"stopped by {number.name} after \d+ records in \d+ batches in .*; left are offsets \d+ to \d+ of"
        assert re.search(said, log.read_text())

    land(spark, load_manifest(stream.manifest), output)
    assert landed(output) == expected(stream.clean())


@pytest.mark.matrix
@pytest.mark.timeout(900)  # a Spark session
def test_a_landing_that_is_to_go_on_ends_well_with_sigterm(
    streams: CreateStream, tmp_path: Path
) -> None:
    stream, output, log = streams(partitions=2), tmp_path / "landed", tmp_path / "log"
    fill(stream, 100)
    with running(log, stream, "land", f"--output={output}", "--every=1s") as process:
        wait_for(lambda: landed(output).total() > 0, "a batch", explain=log.read_text)
        assert ended(process, signal.SIGTERM) == 0, log.read_text()


def test_a_stop_that_comes_when_all_is_landed_leaves_nothing(
    spark: SparkSession, streams: CreateStream, tmp_path: Path
) -> None:
    stream, output, stop = streams(partitions=2), tmp_path / "landed", Event()
    fill(stream, 100)
    manifest = load_manifest(stream.manifest)
    stop.set()

    before = land(spark, manifest, output, stop=stop)
    land(spark, manifest, output)
    after = land(spark, manifest, output, stop=stop)

    assert sum(left.end - left.low for left in before.left.values()) >= 100
    assert after.left == {}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), matrix(signal.SIGINT, 130)])
def test_work_that_is_stopped_leaves_a_session_that_answers(
    spark: SparkSession, number: signal.Signals, code: int
) -> None:
    tracker = spark.sparkContext.statusTracker()

    def stop_it() -> None:
        wait_for(tracker.getActiveJobsIds, "the work runs")
        os.kill(os.getpid(), number)

    def work() -> list[Row]:
        return spark.range(10**13).selectExpr("sum(id % 7)").collect()

    with StopSignals() as signals:
        Thread(target=stop_it).start()
        with pytest.raises(Interrupted, match="before it ended") as ended:
            interruptible(work, spark, signals, "before it ended")

    assert ended.value.exit_code == code
    wait_for(lambda: not tracker.getActiveJobsIds(), "the work is cancelled")
    assert spark.range(10).count() == 10


def test_work_that_ends_or_fails_does_so_as_without_a_thread(spark: SparkSession) -> None:
    with StopSignals() as signals:
        assert interruptible(lambda: 3, spark, signals, "before it ended") == 3
        with pytest.raises(ZeroDivisionError):
            interruptible(lambda: 1 // 0, spark, signals, "before it ended")


@pytest.mark.timeout(600)  # a Spark session
def test_an_audit_that_is_stopped_does_not_end_with_the_code_of_defects(
    streams: CreateStream, tmp_path: Path
) -> None:
    stream, log = streams(partitions=2), tmp_path / "log"
    stream.send(retries(SEED, 100, partitions=2))
    with running(log, stream, "audit", "--conf=spark.app.name=audited") as process:
        # While Spark starts: the signal is noted, and ends the audit before it begins.
        wait_for(lambda: psutil.Process(process.pid).children() or None, "Spark starts")
        assert ended(process, signal.SIGINT) == 130, log.read_text()
    assert "stopped by SIGINT before the audit was done: nothing was judged" in log.read_text()
