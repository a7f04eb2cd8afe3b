"""The progress of Spark jobs, as people, programs and Prometheus see it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dedupe_crds.manifest import load_manifest
from tests.support.fixtures import CreateStream
from tests.support.patience import wait_for
from tests.support.processes.loopback import HTTP
from tests.support.processes.process_group import process_group
from tests.support.spark.landed import landed
from tests.support.spark.session import LOCAL
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import produce_in_transaction, retries

SEED = 21
MESSAGES = 2_000
DEADLINE_SECONDS = 480


def command(stream: TestStream, job: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "dedupe_pipeline", job, str(stream.manifest), *LOCAL, *options]


def run(stream: TestStream, job: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(stream, job, *options),
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_SECONDS,
        # Java writes a line to stderr for this variable, before it runs.
        env={**os.environ, "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"},
    )


def fill(stream: TestStream, count: int) -> None:
    messages = retries(SEED, count, partitions=2)
    produce_in_transaction(stream.bootstrap_servers, stream.output_topic, messages, commit=True)


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def land_options(output: Path) -> list[str]:
    return [f"--output={output}", f"--max-offsets-per-trigger={MESSAGES // 3}"]


@pytest.mark.matrix  # the stream that serves its metrics
@pytest.mark.timeout(900)  # a Spark session
def test_a_landing_tells_each_batch(streams: CreateStream, tmp_path: Path) -> None:
    stream = streams(partitions=2)
    fill(stream, MESSAGES)

    told = run(stream, "land", "--log-format=json", *land_options(tmp_path / "told"))
    assert told.returncode == 0, told.stderr
    records = objects(told.stderr)
    batches = [record for record in records if record["event"] == "batch"]
    assert sum(batch["records"] for batch in batches) == MESSAGES
    assert [batch["rows"] for batch in batches] == [batch["records"] for batch in batches]
    assert [batch["batch"] for batch in batches] == list(range(len(batches)))
    assert batches[0]["lag"] > batches[-1]["lag"] == 0
    assert records[-1]["event"] == "done"
    assert records[-1]["records"] == MESSAGES
    assert re.fullmatch(rf"landed {MESSAGES:,} records in \d batches in .*\n", told.stdout)


@pytest.mark.matrix
@pytest.mark.timeout(900)  # a Spark session
def test_a_landing_that_is_to_be_quiet_tells_its_result(
    streams: CreateStream, tmp_path: Path
) -> None:
    stream = streams(partitions=2)
    fill(stream, MESSAGES)

    quiet = run(stream, "land", "--quiet", *land_options(tmp_path / "quiet"))
    assert re.fullmatch(rf"landed {MESSAGES:,} records in \d batches in .*\n", quiet.stdout)
    assert (quiet.returncode, quiet.stderr) == (0, "")


@pytest.mark.timeout(900)  # a Spark session
def test_a_stream_serves_its_metrics_and_ends_with_a_summary(
    streams: CreateStream, tmp_path: Path
) -> None:
    stream, log, output = streams(partitions=2), tmp_path / "log", tmp_path / "landed"
    fill(stream, MESSAGES)
    options = [*land_options(output), "--every=1s", "--metrics-port=0"]
    shell = ("/bin/sh", "-c", 'exec "$@" >"$0" 2>&1', str(log))

    def metrics() -> dict[str, float]:
        [port] = re.findall(
            r"^metrics: http://127.0.0.1:(\d+)/metrics$", log.read_text(), re.MULTILINE
        )
        text = HTTP.get(f"http://127.0.0.1:{port}/metrics").raise_for_status().text
        return {
            sample.name: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.labels.get("stream") == load_manifest(stream.manifest).shown
        }

    with process_group([*shell, *command(stream, "land", *options)]) as process:
        wait_for(lambda: landed(output).total() == MESSAGES, "all", explain=log.read_text)
        wait_for(lambda: metrics()["dedupe_job_records_total"] == MESSAGES, "all is counted")
        found = metrics()
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_SECONDS) == 0, log.read_text()

    batches = re.findall(r"^batch (\d+): ", log.read_text(), re.MULTILINE)
    assert found["dedupe_job_rows_total"] == MESSAGES
    assert found["dedupe_job_lag_offsets"] == 0
    assert found["dedupe_job_last_batch"] == float(batches[-1])
    assert found["dedupe_job_batches_total"] == len(batches) > 2
    assert found["dedupe_job_last_batch_seconds"] > 0
    assert found["dedupe_job_last_progress_timestamp_seconds"] > 0
    assert re.search(rf"^landed {MESSAGES:,} records in \d+ batches", log.read_text(), re.MULTILINE)


def test_a_port_that_is_taken_is_refused_before_spark_starts(
    streams: CreateStream, tmp_path: Path
) -> None:
    stream = streams()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(stream, "land", f"--output={tmp_path / 'landed'}", f"--metrics-port={port}")
    assert done.returncode == 2
    assert f"--metrics-port: 127.0.0.1:{port} cannot be used: " in done.stderr


@pytest.mark.matrix  # the audit that is stopped in test_interrupted.py
@pytest.mark.timeout(900)  # a Spark session
def test_an_audit_on_a_terminal_has_a_bar_and_ends_with_ctrl_c(
    streams: CreateStream, tmp_path: Path
) -> None:
    stream, shown = streams(partitions=2), tmp_path / "shown"
    messages = retries(SEED, 200_000, partitions=2)
    stream.send(messages)

    with terminal(command(stream, "audit"), shown) as (process, type_keys):
        wait_for(
            lambda: re.search(r"\d+/\d+ tasks, \d+/\d+ stages", text_of(shown)),
            "the bar shows stages",
            explain=lambda: text_of(shown),
        )
        type_keys(b"\x03")
        assert process.wait(DEADLINE_SECONDS) == 130, text_of(shown)

    assert "━" in text_of(shown)
    assert (
        text_of(shown)
        .rstrip()
        .endswith("Error: stopped by SIGINT before the audit was done: nothing was judged")
    )
    assert "Traceback" not in text_of(shown)


def text_of(shown: Path) -> str:
    """What a terminal has got, without escape sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.read_text(errors="replace"))


@contextmanager
def terminal(
    command: Sequence[str], shown: Path
) -> Iterator[tuple[subprocess.Popen[str], Callable[[bytes], object]]]:
    """Run a command on a terminal; yield it, and what types keys. `shown` gets its output."""
    ours, theirs = os.openpty()
    script = f'exec <{os.ttyname(theirs)} >{os.ttyname(theirs)} 2>&1; exec "$@"'

    def copy() -> None:
        with shown.open("wb", buffering=0) as file, suppress(OSError):
            while chunk := os.read(ours, 4096):
                file.write(chunk)

    Thread(target=copy, daemon=True).start()
    # The first terminal that the leader of a session opens is that which sends it Ctrl-C.
    with process_group(["/bin/sh", "-c", script, "sh", *command], env={"TERM": "xterm"}) as process:
        yield process, lambda keys: os.write(ours, keys)
    os.close(theirs)
