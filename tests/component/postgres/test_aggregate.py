"""`aggregate` keeps exact results in a real PostgreSQL, or reports why it cannot."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread

import psycopg
import pytest
import yaml
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # lacks __all__
    AdminClient,
    NewTopic,
)
from pyspark.sql import SparkSession

import dedupe_pipeline
from dedupe_crds.manifest import load_manifest
from dedupe_kafka.errors import RecordsExpired
from dedupe_pipeline.errors import DatabaseFailed, JobRefused, PipelineError
from dedupe_pipeline.jobs.aggregate import AggregateJob, AggregateResult, Postgres, aggregate
from dedupe_pipeline.jobs.aggregate.columns import shape_of
from dedupe_pipeline.jobs.aggregate.exactly_once_writer import Database
from dedupe_pipeline.jobs.aggregate.sql import TableSql
from dedupe_pipeline.runtime.jars import spark_kafka
from dedupe_pipeline.runtime.java import find_java
from tests.support.checker.record import Message
from tests.support.fixtures import HOLDS_ANYTHING, CreateStream
from tests.support.layers import matrix
from tests.support.patience import wait_for
from tests.support.postgres.aggregate_truth import job, messages, truth
from tests.support.postgres.aggregated import check, read_table
from tests.support.postgres.server import TestDatabase, database, postgres_server
from tests.support.spark.session import spark
from tests.support.traffic.streams import TestStream
from tests.support.traffic.topic_changes import add_partitions
from tests.support.traffic.traffic import produce_in_transaction

__all__ = ["database", "postgres_server", "spark"]

PARTITIONS = 2
SEED = 7
AT_ONCE = timedelta(0)
JOB = job("flights")


def fill(stream: TestStream, count: int, *, start: int = 0) -> None:
    """Commit messages in two transactions, with an aborted one between them."""
    sent = list(messages(SEED, count, partitions=PARTITIONS, start=start))
    half = len(sent) // 2
    for part, commit in ((sent[:half], True), (sent, False), (sent[half:], True)):
        produce_in_transaction(stream.bootstrap_servers, stream.output_topic, part, commit=commit)


def run(
    spark: SparkSession,
    stream: TestStream,
    database: TestDatabase,
    wanted: AggregateJob = JOB,
    **options: object,
) -> AggregateResult:
    return aggregate(
        spark,
        load_manifest(stream.manifest),
        wanted,
        database.postgres,
        **{"max_offsets_per_trigger": 400, **options},  # type: ignore[arg-type] # by name
    )


@pytest.fixture
def stream(streams: CreateStream) -> TestStream:
    return streams(partitions=PARTITIONS)


@pytest.mark.parametrize(
    "changes",
    [{}, matrix({"late": "Drop"}), matrix({"watermark": None}), matrix({"slide": "20m"})],
    ids=str,
)
def test_the_table_is_the_truth_about_what_is_committed(
    spark: SparkSession, stream: TestStream, database: TestDatabase, changes: dict[str, object]
) -> None:
    wanted = job("flights", **changes)
    fill(stream, 1_000)
    first = run(spark, stream, database, wanted)
    fill(stream, 500, start=1_000)
    second = run(spark, stream, database, wanted)
    again = run(spark, stream, database, wanted)

    expected = truth(stream.clean(), wanted)
    check(database, wanted, expected)
    assert (first.records, second.records, again) == (1_000, 500, AggregateResult())
    assert first.batches > 1
    for name in ("counted", "late", "filtered", "unusable"):
        total = sum(getattr(account, name) for account in expected.accounts.values())
        assert getattr(first, name) + getattr(second, name) == total
        assert total or not wanted.counts_late


def test_what_is_covered_is_written_down_beside_the_rows(
    spark: SparkSession, stream: TestStream, database: TestDatabase
) -> None:
    """Counted is up to the topic's end, with transaction markers, which are no records."""
    fill(stream, 100)
    run(spark, stream, database)

    covered = database.rows(
        "SELECT partition, first_offset, next_offset FROM dedupestream_offsets ORDER BY partition"
    )
    newest = {record.partition: record.offset for record in stream.clean()}
    assert [(each[0], each[1]) for each in covered] == [(0, 0), (1, 0)]
    assert all(after > newest[partition] + 1 for partition, _, after in covered)  # type: ignore[index, operator] # numbers


def test_windows_are_final_once_no_partition_can_add_to_them(
    spark: SparkSession, stream: TestStream, database: TestDatabase
) -> None:
    fill(stream, 600)
    run(spark, stream, database)
    final = "SELECT * FROM flights_final ORDER BY window_start, carrier"
    before = database.rows(final)
    expected = truth(stream.clean(), JOB)
    assert JOB.watermark is not None
    closed = (
        min(account.newest for account in expected.accounts.values() if account.newest)
        - JOB.watermark
    )
    in_time = {key for key in expected.table(JOB) if key[0] + JOB.window <= closed}
    assert {(row[0], row[2]) for row in before} == in_time != set()

    fill(stream, 600, start=600)
    run(spark, stream, database)

    unchanged = [row[:-1] for row in database.rows(final)]  # but for the number of those too late
    assert [row[:-1] for row in before] == [
        row for row in unchanged if row[:3] in {each[:3] for each in before}
    ]


def test_it_goes_on_until_it_is_stopped(
    spark: SparkSession, stream: TestStream, database: TestDatabase
) -> None:
    stop = Event()
    fill(stream, 50)
    running = Thread(
        target=run,
        args=(spark, stream, database),
        kwargs={"every": timedelta(milliseconds=200), "stop": stop},
    )
    running.start()
    try:
        wait_for(lambda: counted(database) == 50, "the first are counted")
        fill(stream, 30, start=50)
        wait_for(lambda: counted(database) == 80, "the others are counted")
    finally:
        stop.set()
        running.join(60)
    assert not running.is_alive()
    check(database, JOB, truth(stream.clean(), JOB))


def test_records_of_partitions_that_are_added_meanwhile_are_counted_once(
    spark: SparkSession, stream: TestStream, database: TestDatabase
) -> None:
    stop, servers, topic = Event(), stream.bootstrap_servers, stream.output_topic
    fill(stream, 50)
    running = Thread(
        target=run,
        args=(spark, stream, database),
        kwargs={"every": timedelta(milliseconds=200), "stop": stop},
    )
    running.start()
    try:
        wait_for(lambda: counted(database) == 50, "the first are counted")
        add_partitions(servers, topic, PARTITIONS + 2)
        sent = list(messages(SEED, 80, partitions=PARTITIONS + 2, start=50))
        produce_in_transaction(servers, topic, sent, commit=True)
        wait_for(lambda: counted(database) == 130, "the others are counted")
    finally:
        stop.set()
        running.join(60)
    assert not running.is_alive()
    add_partitions(servers, topic, PARTITIONS + 3)
    sent = list(messages(SEED, 80, partitions=PARTITIONS + 3, start=130))
    produce_in_transaction(servers, topic, sent, commit=True)

    run(spark, stream, database)
    check(database, JOB, truth(stream.clean(), JOB))


def counted(database: TestDatabase) -> int:
    if not database.has("dedupestream_offsets"):
        return 0
    [(total,)] = database.rows("SELECT coalesce(sum(records), 0)::int FROM dedupestream_offsets")
    assert isinstance(total, int)
    return total


def test_a_commit_whose_answer_is_lost_is_not_repeated(
    spark: SparkSession,
    stream: TestStream,
    database: TestDatabase,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(stream, 600)
    add = Database._add  # noqa: SLF001 # the seam
    lost: list[object] = []

    def added_and_not_told(*given: object) -> object:
        done = add(*given)  # type: ignore[arg-type] # passed on
        if len(lost) < 2:
            lost.append(done)
            raise psycopg.OperationalError("the connection is lost")
        return done

    monkeypatch.setattr(Database, "_add", added_and_not_told)
    run(spark, stream, database)

    assert len(lost) == 2
    check(database, JOB, truth(stream.clean(), JOB))


def test_two_jobs_share_a_database_and_no_table(
    spark: SparkSession, stream: TestStream, streams: CreateStream, database: TestDatabase
) -> None:
    other, by_half_hour = streams(partitions=PARTITIONS), job("half_hours", window="30m")
    fill(stream, 200)
    fill(other, 100)

    run(spark, stream, database)
    run(spark, other, database, by_half_hour)

    assert read_table(database, JOB) == truth(stream.clean(), JOB).table(JOB)
    assert read_table(database, by_half_hour) == truth(other.clean(), by_half_hour).table(
        by_half_hour
    )
    with pytest.raises(JobRefused, match=r"flights is counted from topic 'clean-.*start again"):
        run(spark, other, database)


def test_two_jobs_at_once_on_a_table_are_refused(
    spark: SparkSession, stream: TestStream, database: TestDatabase
) -> None:
    fill(stream, 50)
    run(spark, stream, database)
    with Database(database.postgres, TableSql.of(JOB, shape_of(spark, JOB))):  # noqa: SIM117 # in this order
        with pytest.raises(
            JobRefused, match=r"another job adds to flights .*session \d+ .*stop it"
        ):
            run(spark, stream, database, lock_patience=AT_ONCE)
    run(spark, stream, database)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ("CREATE TABLE flights (carrier text)", "window_start .* is missing; .*drop this table"),
        (
            "CREATE TABLE flights (window_start timestamptz, window_end timestamptz, carrier "
            "varchar(2), flights int, delayed bigint, total bigint, least bigint, worst bigint, late "
            "bigint)",
            r"carrier is character varying\(2\), not text; flights is integer, not bigint\. Name",
        ),
        (
            "CREATE TABLE flights (window_start timestamptz, window_end timestamptz, carrier text, "
            "flights bigint, delayed bigint, total bigint, least bigint, worst bigint, late bigint, "
            "UNIQUE (window_start, carrier))",
            r"no unique constraint on \(window_start, carrier\) with NULLS NOT DISTINCT",
        ),
        ("CREATE VIEW flights AS SELECT 1 AS n", "is not an ordinary, logged table"),
        ("CREATE UNLOGGED TABLE flights (n int)", "is not an ordinary, logged table"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_and_left_alone(
    spark: SparkSession, stream: TestStream, database: TestDatabase, made: str, says: str
) -> None:
    database.run(made)

    with pytest.raises(JobRefused, match=f"flights in test@127.0.0.1.*{says}"):
        run(spark, stream, database)

    assert not database.has("dedupestream_jobs")


def test_a_table_of_the_users_own_making_is_taken_with_its_own_columns(
    spark: SparkSession, stream: TestStream, database: TestDatabase
) -> None:
    database.run(
        "CREATE TABLE flights (id bigint GENERATED ALWAYS AS IDENTITY, carrier text, window_start "
        "timestamptz, window_end timestamptz, flights bigint, delayed bigint, total bigint, least "
        "bigint, worst bigint, late bigint, UNIQUE NULLS NOT DISTINCT (carrier, window_start))"
    )
    fill(stream, 100)

    run(spark, stream, database)

    check(database, JOB, truth(stream.clean(), JOB))


def test_a_job_that_means_something_else_is_refused_and_a_renamed_table_goes_on(
    spark: SparkSession, stream: TestStream, database: TestDatabase
) -> None:
    fill(stream, 100)
    run(spark, stream, database)

    with pytest.raises(
        JobRefused, match=r"with another definition: window was '1h' and is '2h'. Restore"
    ):
        run(spark, stream, database, job("flights", window="2h"))
    database.run("ALTER TABLE flights RENAME TO departures")
    assert run(spark, stream, database, job("departures")).records == 0


def test_a_table_that_was_dropped_is_counted_from_the_beginning(
    spark: SparkSession, stream: TestStream, database: TestDatabase
) -> None:
    fill(stream, 100)
    run(spark, stream, database)
    database.run("DROP VIEW flights_final", "DROP TABLE flights")

    run(spark, stream, database)

    check(database, JOB, truth(stream.clean(), JOB))
    assert database.rows("SELECT count(*) FROM dedupestream_jobs") == [(1,)]


def test_rows_of_unknown_origin_are_refused(
    spark: SparkSession, stream: TestStream, database: TestDatabase
) -> None:
    fill(stream, 100)
    run(spark, stream, database)
    database.run("DELETE FROM dedupestream_jobs")

    with pytest.raises(JobRefused, match="has rows of unknown origin"):
        run(spark, stream, database)


def test_a_topic_that_was_made_again_is_another_one(
    spark: SparkSession,
    stream: TestStream,
    database: TestDatabase,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This also holds if it happens in a run, and the topic then has more records."""
    fill(stream, 100)
    run(spark, stream, database)
    before = read_table(database, JOB)
    register = Database.register

    def registered_and_made_again(*given: object, **named: object) -> object:
        found = register(*given, **named)  # type: ignore[arg-type] # passed on
        make_again(stream)
        fill(stream, 300)
        return found

    monkeypatch.setattr(Database, "register", registered_and_made_again)
    with pytest.raises(JobRefused, match="was deleted and created again while it was counted"):
        run(spark, stream, database)
    monkeypatch.undo()
    with pytest.raises(JobRefused, match="was deleted and created again since"):
        run(spark, stream, database)
    assert read_table(database, JOB) == before


def make_again(stream: TestStream) -> None:
    """Delete the topic, and create it again."""
    admin = AdminClient({"bootstrap.servers": stream.bootstrap_servers})
    admin.delete_topics([stream.output_topic], operation_timeout=30)[stream.output_topic].result(30)
    settings = {name: str(value) for name, value in HOLDS_ANYTHING.items()}
    new = NewTopic(
        stream.output_topic, num_partitions=PARTITIONS, replication_factor=1, config=settings
    )
    wait_for(lambda: created(admin, new), "the topic is there again", deadline_seconds=60)


def created(admin: AdminClient, new: NewTopic) -> bool:
    try:
        admin.create_topics([new], operation_timeout=30)[new.topic].result(30)
    except Exception:  # noqa: BLE001 # the old topic is still being deleted
        return False
    return True


def test_records_that_expired_before_they_were_counted_are_told(
    spark: SparkSession, stream: TestStream, database: TestDatabase
) -> None:
    fill(stream, 200)
    run(spark, stream, database)
    before = read_table(database, JOB)
    fill(stream, 100, start=200)
    delete_all(stream)

    with pytest.raises(RecordsExpired, match=r"is counted to before offset \d+, .*--skip-deleted"):
        run(spark, stream, database)
    assert run(spark, stream, database, skip_deleted=True).records == 0
    assert read_table(database, JOB) == before
    [(skipped,)] = database.rows("SELECT sum(skipped)::int FROM dedupestream_offsets")
    assert isinstance(skipped, int)
    assert skipped >= 100


def test_records_that_expired_after_they_were_counted_are_no_trouble(
    spark: SparkSession, stream: TestStream, database: TestDatabase
) -> None:
    """Nor are transaction markers at the end missing, as they were never records."""
    fill(stream, 200)
    run(spark, stream, database)
    delete_all(stream)

    assert run(spark, stream, database) == AggregateResult()


def delete_all(stream: TestStream) -> None:
    admin = AdminClient({"bootstrap.servers": stream.bootstrap_servers})
    asked = [TopicPartition(stream.output_topic, number, -1) for number in range(PARTITIONS)]
    for done in admin.delete_records(asked, request_timeout=30).values():
        done.result(30)


def test_a_database_that_went_back_in_time_is_told_and_then_repaired(
    spark: SparkSession,
    stream: TestStream,
    database: TestDatabase,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It goes back between two batches, as after a failover to a lagging replica."""
    fill(stream, 900)
    add, calls = Database.add, []

    def restored_before_the_third(self: Database, *given: object) -> object:
        calls.append(given)
        if len(calls) == 3:
            database.run(
                "DELETE FROM flights",
                "UPDATE dedupestream_offsets SET next_offset = first_offset, newest = NULL, records = "
                "0, counted = 0, late = 0, filtered = 0, unusable = 0",
            )
        return add(self, *given)  # type: ignore[arg-type] # passed on

    monkeypatch.setattr(Database, "add", restored_before_the_third)
    with pytest.raises(DatabaseFailed, match=r"went back to an earlier state: .*run the job again"):
        run(spark, stream, database)
    monkeypatch.undo()
    run(spark, stream, database)

    check(database, JOB, truth(stream.clean(), JOB))


def test_a_batch_that_fails_is_explained_in_a_line_and_leaves_nothing(
    spark: SparkSession, stream: TestStream, database: TestDatabase
) -> None:
    sent = [Message(0, b"k", b'{"time": "2013-01-01T00:00:00Z", "delay": 1}', timestamp_ms=1)]
    produce_in_transaction(stream.bootstrap_servers, stream.output_topic, sent, commit=True)

    with pytest.raises(
        PipelineError, match=r"counting for flights stopped: .*DIVIDE_BY_ZERO"
    ) as raised:
        run(spark, stream, database, job("flights", measures={"m": "sum(1 / (delay - delay))"}))
    assert "\n" not in str(raised.value)
    assert database.rows("SELECT count(*) FROM flights") == [(0,)]


def test_a_sum_that_overflows_in_the_database_is_told(
    spark: SparkSession, stream: TestStream, database: TestDatabase
) -> None:
    wanted = job("flights", measures={"m": f"sum({2**62})"}, watermark=None)
    sent = Message(0, b"k", b'{"time": "2013-01-01T00:00:00Z"}', timestamp_ms=1)
    produce_in_transaction(stream.bootstrap_servers, stream.output_topic, [sent], commit=True)
    run(spark, stream, database, wanted)
    produce_in_transaction(stream.bootstrap_servers, stream.output_topic, [sent], commit=True)

    with pytest.raises(DatabaseFailed, match="refuses a batch for flights: bigint out of range"):
        run(spark, stream, database, wanted)
    assert database.rows("SELECT m FROM flights") == [(2**62,)]


def test_a_database_that_is_not_there_is_told_at_once(
    spark: SparkSession, stream: TestStream
) -> None:
    nowhere = Postgres.of("postgresql://nobody@127.0.0.1:1/none")

    with pytest.raises(DatabaseFailed, match=r"port 1 failed: Connection refused"):
        aggregate(spark, load_manifest(stream.manifest), JOB, nowhere)


# -- the command ---------------------------------------------------------------------------------


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({"table": "flights", **JOB.definition()}))
    return path


def arguments(stream: TestStream, job_file: Path, *more: str | Path) -> list[str]:
    return ["aggregate", str(stream.manifest), str(job_file), *map(str, more)]


def test_the_command_counts_with_a_password_from_a_file(
    stream: TestStream, database: TestDatabase, job_file: Path, tmp_path: Path
) -> None:
    fill(stream, 200)
    secret, url = tmp_path / "postgres.properties", database.url.partition("?")[0]
    password = database.server.password
    secret.write_text(f"# of a Secret\npassword = {password}\n")

    done = subprocess.run(
        [
            *(sys.executable, "-m", "dedupe_pipeline"),
            *arguments(stream, job_file, "--postgres-url", url),
            *("--postgres-properties", secret),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("added 200 records in 1 batches to flights; late: ")
    assert password not in done.stdout + done.stderr
    check(database, JOB, truth(stream.clean(), JOB))


@pytest.mark.matrix  # those of the page in tests/component/spark/test_cluster.py
def test_spark_submit_runs_the_same_command(
    stream: TestStream, database: TestDatabase, job_file: Path
) -> None:
    """It runs with exactly the given jars, master and properties."""
    fill(stream, 200)
    submit = Path(sys.executable).with_name("spark-submit")
    done = subprocess.run(
        [
            *(submit, "--master", "local[2]", "--driver-memory", "1g"),
            *("--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2"),
            *("--jars", ",".join(map(str, spark_kafka()))),
            Path(dedupe_pipeline.__file__).with_name("__main__.py"),
            *arguments(stream, job_file),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "JAVA_HOME": str(Path(find_java()).resolve().parents[1]),
            "PYSPARK_PYTHON": sys.executable,
            "PGHOST": "127.0.0.1",
            "PGPORT": str(database.server.port),
            "PGUSER": "test",
            "PGPASSWORD": database.server.password,
            "PGDATABASE": database.name,
        },
    )

    assert done.returncode == 0, done.stderr
    # spark-submit writes to its stdout what Python writes to stderr: so the progress is there too.
    assert done.stdout.splitlines()[-1].startswith("added 200 records")
    check(database, JOB, truth(stream.clean(), JOB))
