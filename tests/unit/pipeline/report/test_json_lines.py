"""With --log-format json each line on stderr is an object, whoever writes it and however the command ends."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.support.patience import HANG_SECONDS

PROGRAM = """
import logging, os, subprocess, sys, time, warnings
import click
from dedupe_crds.exit_status import CommandFailed, Commands, ExitStatus
from dedupe_pipeline.report.report import Report, Step, report_options
from dedupe_crds.stop_signals import StopSignals

@click.group(cls=Commands)
def main(): pass

@main.command()
@report_options
@click.argument("way")
@click.option("--number", type=int)
def end(*, way, number, report):
    now = [0.0]
    report._clock = lambda: now[0]
    report._line_at = 0.0
    report.step(Step(action="reading", done=1, total=4, figures={"records": 7}))
    report.line("batch", "batch 1", records=2)
    report.warn("beware")
    if way == "noisy":
        print("from print", file=sys.stderr)
        print("NOTE: Picked up JDK_JAVA_OPTIONS: -Xmx1g", file=sys.stderr)
        os.write(2, b"from a C library: \\xff\\n")
        subprocess.run(["sh", "-c", "echo from a child >&2; echo '{\\"event\\": \\"own\\"}' >&2"])
        logging.getLogger("some").warning("of a %s", "logger")
        warnings.warn("of Python")
    if way == "fail":
        raise CommandFailed("mend it", ExitStatus.FAILED)
    if way == "defect":
        raise KeyError("no such\\nkey")
    if way == "signal":
        with StopSignals() as signals, signals.interrupting(lambda: "after 3 records"):
            print("ready", flush=True)
            time.sleep(60)
    report.result("the result", records=2)

main()
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, "end", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def run_json(*arguments: str) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    done = run("--log-format=json", *arguments)
    return done, [json.loads(line) for line in done.stderr.splitlines()]


def events(records: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(record["level"], record["event"]) for record in records if "level" in record]


def test_progress_and_the_result_are_objects_with_numbers() -> None:
    done, records = run_json("well")

    assert done.stdout == "the result\n"
    assert [record["event"] for record in records] == ["progress", "batch", "beware", "done"]
    progress, batch, _, ended = records
    assert (progress["action"], progress["done"], progress["total"]) == ("reading", 1, 4)
    assert progress["records"] == 7
    assert (batch["records"], ended["records"]) == (2, 2)
    assert all(record["timestamp"].endswith("Z") for record in records)


def test_what_others_write_is_wrapped() -> None:
    _, records = run_json("noisy")

    found = {record["event"]: record for record in records}
    for text in ("from print", "from a C library: \ufffd", "from a child"):
        assert found[text]["logger"] == "stderr"
    assert not any("Picked up" in event for event in found)
    assert found["own"] == {"event": "own"}
    assert (found["of a logger"]["level"], found["of a logger"]["logger"]) == ("warning", "some")
    assert any("of Python" in event for event in found)


@pytest.mark.parametrize(
    ("way", "code", "told"),
    [
        (["fail"], 3, ("error", "mend it")),
        (["defect"], 3, ("error", "this is a defect of the program, not of your input")),
        (["well", "--number=x"], 2, ("error", "Invalid value for '--number': 'x' is not")),
    ],
)
def test_errors_are_objects_with_the_exit_code(
    way: list[str], code: int, told: tuple[str, str]
) -> None:
    done, records = run_json(*way)

    level, event = events(records)[-1]
    assert done.returncode == code
    assert (level, event[: len(told[1])]) == told
    assert records[-1]["exit_code"] == code
    assert ("Traceback" in records[-1].get("exception", "")) == (way == ["defect"])


def test_a_quiet_command_prints_no_more_than_the_result_warnings_and_errors() -> None:
    well, defect, noisy = run("well", "--quiet"), run("defect", "--quiet"), run("noisy", "--quiet")

    assert (well.stdout, well.stderr) == ("the result\n", "warning: beware\n")
    assert noisy.stderr.startswith("warning: beware\nfrom print\nfrom a C library: ")
    assert "Picked up" not in noisy.stderr
    assert "Traceback" in defect.stderr
    assert defect.stderr.endswith("\nError: this is a defect of the program, not of your input\n")


def test_a_signal_is_an_object_too() -> None:
    command = [sys.executable, "-c", PROGRAM, "end", "--log-format=json", "signal"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        os.kill(running.pid, signal.SIGTERM)
        _, said = running.communicate(timeout=HANG_SECONDS)

    last = json.loads(said.splitlines()[-1])
    assert running.returncode == last["exit_code"] == 143
    assert last["event"] == "stopped by SIGTERM after 3 records"
