"""The `dedupe` command as a user calls it."""

import fcntl
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest
import yaml

from tests.support.checker.checker import judge
from tests.support.checker.history import read_topic
from tests.support.checker.id_sources import key_id
from tests.support.layers import matrix
from tests.support.patience import HANG_SECONDS, wait_for
from tests.support.traffic.streams import TestStream, stream_manifest
from tests.support.traffic.traffic import produce, retries

CreateStream = Callable[..., TestStream]

SEED = 20261121
DEDUPE = (sys.executable, "-m", "dedupe_local")


def dedupe(*arguments: str | Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DEDUPE, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@contextmanager
def running(
    log: Path, arguments: Sequence[str | Path]
) -> Iterator[tuple[subprocess.Popen[str], Callable[[], str]]]:
    """Start `dedupe`, and end it with the test; its output can be read meanwhile."""
    with (
        log.open("w") as output,
        subprocess.Popen(
            [*DEDUPE, *map(str, arguments)], stdout=output, stderr=subprocess.STDOUT, text=True
        ) as process,
    ):
        try:
            yield process, log.read_text
        finally:
            process.kill()


def run_arguments(stream: TestStream, state_dir: Path) -> list[str | Path]:
    servers = ("--bootstrap-servers", stream.bootstrap_servers)
    return ["run", stream.manifest, *servers, "--state-dir", state_dir]


def test_a_drain_makes_the_output_topic_and_ends_with_zero(
    streams: CreateStream, tmp_path: Path
) -> None:
    stream = streams(partitions=2)
    fresh = stream_manifest(
        tmp_path, stream.bootstrap_servers, stream.input_topic, f"{stream.output_topic}-fresh"
    )
    stream.send(retries(SEED, 3_000, partitions=2))

    run = dedupe(*run_arguments(fresh, tmp_path / "state"), "--drain")

    assert run.returncode == 0, run.stderr
    assert "Read 3,000 records" in run.stdout
    judge(fresh.raw(), fresh.clean(), key_id).assert_exactly_once(3_000)


def test_sigterm_stops_a_run_and_its_workers(streams: CreateStream, tmp_path: Path) -> None:
    stream = streams(partitions=2)
    with running(tmp_path / "log", run_arguments(stream, tmp_path / "state")) as (process, said):
        wait_for(lambda: "2 of 2 running" in said(), "both running", explain=said)
        workers = psutil.Process(process.pid).children(recursive=True)
        assert len(workers) == 2

        process.send_signal(signal.SIGTERM)

        assert process.wait(timeout=HANG_SECONDS) == 0, said()
        assert not any(worker.is_running() for worker in workers)


def test_workers_do_not_outlive_a_run_that_is_killed(streams: CreateStream, tmp_path: Path) -> None:
    stream = streams(partitions=2)
    with running(tmp_path / "log", run_arguments(stream, tmp_path / "state")) as (process, said):
        wait_for(lambda: "2 of 2 running" in said(), "both running", explain=said)
        workers = psutil.Process(process.pid).children(recursive=True)
        assert len(workers) == 2

        process.kill()

        assert psutil.wait_procs(workers, timeout=HANG_SECONDS)[1] == []


def test_a_run_waits_for_the_worker_of_a_killed_one_that_still_ends(
    streams: CreateStream, tmp_path: Path
) -> None:
    """A worker with a large store frees its lock up to a second after the lock of its run is free."""
    stream = streams(partitions=1)
    lock = tmp_path / "state" / "partition-0" / "lock"
    lock.parent.mkdir(parents=True)
    with ExitStack() as opened:
        held = opened.enter_context(lock.open("w"))
        fcntl.flock(held, fcntl.LOCK_EX)
        arguments = run_arguments(stream, tmp_path / "state")
        process, said = opened.enter_context(running(tmp_path / "log", arguments))
        wait_for(lambda: "waits for" in said() or process.poll(), "it says so", explain=said)
        fcntl.flock(held, fcntl.LOCK_UN)

        wait_for(lambda: "1 of 1 running" in said(), "the worker running", explain=said)
        assert "STATE_LOCKED" not in said()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), matrix(signal.SIGINT, 130)])
def test_a_drain_that_is_stopped_early_ends_with_the_code_of_the_signal(
    streams: CreateStream, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    stream = streams(partitions=1, output={"max.message.bytes": 300})  # it never gets on
    stream.send(retries(SEED, 10))
    arguments = [*run_arguments(stream, tmp_path / "state"), "--drain"]
    with running(tmp_path / "log", arguments) as (process, said):
        wait_for(lambda: "RecordTooLarge" in said(), "the refusal", explain=said)

        process.send_signal(number)

        assert process.wait(timeout=HANG_SECONDS) == code
        assert f"stopped by {number.name} before the input was drained: partition 0 is at" in said()


@pytest.mark.parametrize(("options", "code"), [(("--drain",), 143), ((), 0)], ids=["drain", "run"])
def test_a_stop_during_the_start_is_the_end_of_a_run_but_not_of_a_drain(
    tmp_path: Path, options: tuple[str, ...], code: int
) -> None:
    manifest = stream_manifest(tmp_path, "kafka:9092", "orders", "orders-clean").manifest
    arguments: list[str | Path] = ["run", manifest, "--state-dir", tmp_path / "state", *options]
    with running(tmp_path / "log", arguments) as (process, said):
        wait_for(lambda: "State directory" in said(), "it starts the broker", explain=said)

        process.send_signal(signal.SIGTERM)

        assert process.wait(timeout=HANG_SECONDS) == code, said()
        assert "Traceback" not in said()
        assert ("before the input was drained: the run was starting" in said()) == bool(options)


@pytest.mark.matrix  # the broker that was killed in test_kafka.py
def test_an_embedded_broker_keeps_its_topics(tmp_path: Path) -> None:
    manifest = stream_manifest(tmp_path, "kafka:9092", "orders", "orders-clean").manifest
    arguments: list[str | Path] = ["run", manifest, "--embedded", "--state-dir", tmp_path / "state"]
    with running(tmp_path / "log", [*arguments, "--partitions", "2"]) as (process, said):
        wait_for(lambda: "2 of 2 running" in said(), "running", explain=said)
        found = re.search(r"Embedded broker: (\S+),", said())
        assert found is not None
        # Of now: its topics keep a week.
        messages = [
            replace(message, timestamp_ms=None) for message in retries(SEED, 1_000, partitions=2)
        ]
        produce(found[1], "orders", messages)
        wait_for(lambda: "1,000 read" in said(), "all read", explain=said)
        raw = read_topic(found[1], "orders")
        passed = partial(read_topic, found[1], "orders-clean")  # its last transaction may be open
        wait_for(lambda: not judge(raw, passed(), key_id).lost, "all passed on", explain=said)
        clean = passed()
        family = psutil.Process(process.pid).children(recursive=True)

        process.send_signal(signal.SIGINT)

        assert process.wait(timeout=HANG_SECONDS) == 0, said()
        assert not any(member.is_running() for member in family)
    judge(raw, clean, key_id).assert_exactly_once(1_000)

    again = dedupe(*arguments, "--drain")
    assert again.returncode == 0, again.stderr
    assert "Read 0 records" in again.stdout  # they were read before, and are remembered


def test_a_second_run_on_the_same_state_directory_is_refused(
    streams: CreateStream, tmp_path: Path
) -> None:
    arguments = run_arguments(streams(), tmp_path / "state")
    with running(tmp_path / "log", arguments) as (process, said):
        wait_for(lambda: "State directory" in said(), "the first run", explain=said)

        second = dedupe(*arguments)

        assert second.returncode == 3
        assert f"is in use by process {process.pid}" in second.stderr


def edited(stream: TestStream, **spec: object) -> TestStream:
    document = yaml.safe_load(stream.manifest.read_text())
    document["spec"].update(spec)
    stream.manifest.write_text(yaml.safe_dump(document))
    return stream


@pytest.mark.parametrize(
    ("spec", "reported", "code"),
    [
        ({"store": {"type": "InverseBloom"}}, "spec.store.inverseBloom: is required by", 2),
        ({"delivery": "AtMostOnce"}, "spec.delivery", 2),
        ({"input": {"topic": "nowhere"}}, "Input topic nowhere does not exist", 3),
        ({"mode": "Perhaps"}, "spec.mode", 2),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_starts(
    streams: CreateStream, tmp_path: Path, spec: dict[str, object], reported: str, code: int
) -> None:
    stream = edited(streams(), **spec)

    run = dedupe(*run_arguments(stream, tmp_path / "state"))

    assert run.returncode == code
    assert reported in run.stderr
    assert "Traceback" not in run.stderr
    assert not list(tmp_path.glob("state/partition-*"))


def test_a_compacted_output_topic_is_refused(streams: CreateStream, tmp_path: Path) -> None:
    stream = streams(output={"cleanup.policy": "compact"})

    run = dedupe(*run_arguments(stream, tmp_path / "state"))

    assert run.returncode == 3
    assert f"Output topic {stream.output_topic} is compacted" in run.stderr


def test_a_suspended_stream_starts_nothing_and_says_so(
    streams: CreateStream, tmp_path: Path
) -> None:
    run = dedupe(*run_arguments(edited(streams(), suspend=True), tmp_path / "state"))

    assert run.returncode == 0
    assert "spec.suspend is true: nothing is started" in run.stdout
    assert not (tmp_path / "state").exists()


def test_a_broker_that_does_not_answer_is_told_in_one_line(
    streams: CreateStream, tmp_path: Path
) -> None:
    run = dedupe(
        "run", streams().manifest, "--bootstrap-servers", "127.0.0.1:1", "--state-dir", tmp_path
    )

    assert run.returncode == 3
    assert re.search(r"127\.0\.0\.1:1: .*check that Kafka runs there", run.stderr)
    assert "--embedded starts a broker here" in run.stderr
    assert "Traceback" not in run.stderr


def test_the_cluster_of_the_manifest_is_used(streams: CreateStream, tmp_path: Path) -> None:
    stream = streams(partitions=2)
    stream.send(retries(SEED, 1_000, partitions=2))

    run = dedupe("run", stream.manifest, "--state-dir", tmp_path / "state", "--drain")

    assert run.returncode == 0, run.stderr
    assert "Read 1,000 records" in run.stdout
    assert not (tmp_path / "state" / "broker").exists()
    judge(stream.raw(), stream.clean(), key_id).assert_exactly_once(1_000)


def test_validate_tells_a_good_manifest_from_a_bad_one(streams: CreateStream) -> None:
    stream = streams()
    good = dedupe("validate", stream.manifest)
    assert good.returncode == 0
    assert f"{stream.input_topic} → {stream.output_topic}" in good.stdout

    bad = dedupe("validate", edited(stream, mode="Perhaps").manifest)
    assert bad.returncode == 2
    assert "spec.mode" in bad.stderr
    assert "Enforce" in bad.stderr
