"""The table of `aggregate` is exact, whatever is killed, lost or restarted."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from dedupe_pipeline.jobs.aggregate import AggregateJob
from tests.faults.seed import SEED
from tests.support.fixtures import CreateStream
from tests.support.layers import matrix
from tests.support.patience import wait_for
from tests.support.postgres.aggregate_truth import Truth, job, messages, truth
from tests.support.postgres.aggregated import check, read_table
from tests.support.postgres.aggregating import BATCH, RESULT_SIZE, STEPS
from tests.support.postgres.server import (
    TestDatabase,
    database,
    new_database,
    postgres_server,
    running_postgres,
)
from tests.support.processes.process_group import process_group
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import produce_in_transaction

__all__ = ["database", "postgres_server"]

PARTITIONS = 2
DEADLINE_SECONDS = 180
SMALL_BATCH = 300
LARGE_BATCH = 5_000
JOB = job("flights", slide="30m")
BOTH_SIDES_OF_A_COMMIT = ("in it, when all is done", "after its commit")


class Runs:
    """Runs of a job as processes, each in its own group, which is killed at the end."""

    def __init__(
        self,
        stream: TestStream,
        database: TestDatabase,
        directory: Path,
        wanted: AggregateJob = JOB,
        env: Mapping[str, str] | None = None,
    ) -> None:
        job_file = directory / "job.yaml"
        job_file.write_text(yaml.safe_dump({"table": wanted.table, **wanted.definition()}))
        self._temporary = directory / "temporary"
        self._temporary.mkdir()
        self._env = {"TMPDIR": str(self._temporary), **(env or {})}
        self._arguments = [str(stream.manifest), str(job_file), database.url]

    @contextmanager
    def start(self, *step: str, batch: int = SMALL_BATCH) -> Iterator[subprocess.Popen[str]]:
        """Start a run that dies at the step, and wait until it begins to count."""
        command = [
            sys.executable,
            "-m",
            "tests.support.postgres.aggregating",
            *self._arguments,
            *step,
        ]
        with process_group(command, {**self._env, BATCH: str(batch)}) as started:
            assert started.stdout is not None
            assert started.stdout.readline() == "aggregating\n"
            yield started

    def finish(self) -> None:
        """Run the job on the rest."""
        with self.start(batch=LARGE_BATCH) as last:
            assert last.wait(DEADLINE_SECONDS) == 0

    def checkpoint(self) -> Path | None:
        """Return the directory in which Spark records the progress of the run."""
        return next(self._temporary.glob("dedupe-aggregate-*/offsets"), None)


@pytest.fixture
def stream(streams: CreateStream) -> TestStream:
    return streams(partitions=PARTITIONS)


@pytest.fixture
def runs(stream: TestStream, database: TestDatabase, tmp_path: Path) -> Runs:
    return Runs(stream, database, tmp_path)


def fill(stream: TestStream, count: int) -> Truth:
    """Commit messages in two transactions, an aborted one between; return the truth."""
    sent = list(messages(SEED, count, partitions=PARTITIONS))
    half = len(sent) // 2
    for part, commit in ((sent[:half], True), (sent, False), (sent[half:], True)):
        produce_in_transaction(stream.bootstrap_servers, stream.output_topic, part, commit=commit)
    return truth(stream.clean(), JOB)


def counted(database: TestDatabase) -> int:
    """Return how many records are counted so far."""
    if not database.has("dedupestream_offsets"):
        return 0
    [(total,)] = database.rows("SELECT coalesce(sum(records), 0)::int FROM dedupestream_offsets")
    assert isinstance(total, int)
    return total


def check_is_part(database: TestDatabase, wanted: AggregateJob, expected: Truth) -> None:
    """Assert that no row counts too much."""
    whole = expected.table(wanted)
    for key, (flights, delayed, *_, late) in read_table(database, wanted).items():
        of_all = whole[key]
        assert (flights or 0) <= (of_all[0] or 0)
        assert (delayed or 0) <= (of_all[1] or 0)
        assert (late or 0) <= (of_all[-1] or 0)


@pytest.mark.timeout(900)  # about eight Spark sessions in sequence
@pytest.mark.parametrize(
    "steps", [BOTH_SIDES_OF_A_COMMIT, matrix(tuple(STEPS))], ids=["the commit", "each"]
)
def test_killed_at_each_step_the_table_is_the_truth(
    stream: TestStream, database: TestDatabase, runs: Runs, steps: tuple[str, ...]
) -> None:
    """Kill a job at step after step; each run resumes where the previous one ended."""
    expected = fill(stream, 3_000)
    seen = 0

    for step in steps:
        with runs.start(step) as dying:
            assert dying.wait(DEADLINE_SECONDS) == -signal.SIGKILL, step
        wait_until_noticed(database)
        assert (counted(database) > seen) == step.startswith("after"), step
        check_is_part(database, JOB, expected)
        seen = counted(database)
    assert seen < 3_000, "nothing was left to count when it was killed"

    runs.finish()
    check(database, JOB, expected)


def wait_until_noticed(database: TestDatabase) -> None:
    """Wait until PostgreSQL has noticed that its client is gone."""
    sessions = (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    wait_for(
        lambda: not database.rows(sessions),
        "no session is left",
        deadline_seconds=DEADLINE_SECONDS,
    )


@pytest.mark.matrix
@pytest.mark.timeout(900)  # about five Spark sessions in sequence
def test_killed_at_random_moments_the_table_is_the_truth(
    stream: TestStream, database: TestDatabase, runs: Runs
) -> None:
    """Kill Python alone or with its JVM, at any moment from the first batch on."""
    rng = random.Random(SEED)
    expected = fill(stream, 6_000)

    for _ in range(4):
        with runs.start() as dying:
            try:
                dying.wait(rng.uniform(2, 10))
            except subprocess.TimeoutExpired:
                (os.kill if rng.random() < 0.5 else os.killpg)(dying.pid, signal.SIGKILL)
        check_is_part(database, JOB, expected)

    runs.finish()
    check(database, JOB, expected)


@pytest.mark.timeout(600)  # two Spark sessions in sequence
def test_a_batch_that_exceeds_what_sparks_driver_accepts_is_counted_in_parts(
    stream: TestStream, database: TestDatabase, tmp_path: Path
) -> None:
    """The records of a batch are in 60 windows each; it is killed after its first part."""
    fill(stream, 3_000)
    wanted = job("flights", slide="1m")
    expected = truth(stream.clean(), wanted)
    runs = Runs(stream, database, tmp_path, wanted, env={RESULT_SIZE: "600k"})

    with runs.start("after its commit", batch=LARGE_BATCH) as dying:
        assert dying.wait(DEADLINE_SECONDS) == -signal.SIGKILL
    wait_until_noticed(database)
    assert 0 < counted(database) < 3_000, "the batch was not divided"
    check_is_part(database, wanted, expected)

    runs.finish()
    check(database, wanted, expected)


@pytest.mark.timeout(600)  # the machine is busy with other tests
def test_when_every_task_fails_once_and_is_tried_again_the_table_is_the_truth(
    stream: TestStream, database: TestDatabase, tmp_path: Path
) -> None:
    expected = fill(stream, 1_000)
    failing = JOB.model_copy(update={"where": f"fails_at_first() AND ({JOB.where})"})

    Runs(stream, database, tmp_path, failing).finish()

    check(database, JOB, expected)


@pytest.mark.timeout(600)  # about two Spark sessions in sequence
def test_when_sparks_checkpoint_is_lost_the_database_tells_where_to_go_on(
    stream: TestStream, database: TestDatabase, runs: Runs
) -> None:
    """It is lost in the middle of a run, which may fail. No run uses that of another."""
    expected = fill(stream, 3_000)

    with runs.start() as robbed:
        wait_for(lambda: counted(database) > 0, "something is counted")
        checkpoint = runs.checkpoint()
        assert checkpoint is not None
        # At once, as Spark still writes into it.
        checkpoint.parent.rename(checkpoint.parent.with_name("lost"))
        robbed.wait(DEADLINE_SECONDS)
    check_is_part(database, JOB, expected)

    runs.finish()
    check(database, JOB, expected)


def wait_for_more(database: TestDatabase, running: subprocess.Popen[str]) -> None:
    """Wait until another batch is added, or there is none."""
    seen = counted(database)
    wait_for(
        lambda: counted(database) > seen or running.poll() is not None, "more records are counted"
    )


@pytest.mark.timeout(600)  # a server that stands still, and a Spark session
def test_when_postgresql_restarts_in_the_middle_the_same_run_goes_on(
    stream: TestStream, tmp_path: Path
) -> None:
    expected = fill(stream, 3_000)
    with running_postgres() as server:
        database = new_database(server)
        runs = Runs(stream, database, tmp_path)
        with runs.start() as running:
            for _ in range(3):
                wait_for_more(database, running)
                server.stop()
                server.start()
            assert running.wait(DEADLINE_SECONDS) == 0

        check(database, JOB, expected)
