"""Stores filled with past ids, used by a real worker on a real broker."""

import csv
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from time import time
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyarrow import parquet

from dedupe_crds.status.exit_code import ExitCode
from dedupe_kafka.partitioners import Partitioner, partitions_of
from dedupe_local.run import child_process
from tests.conftest import CreateTopic
from tests.support.checker.history import read_topic
from tests.support.checker.record import Message, Record
from tests.support.layers import matrix
from tests.support.patience import wait_for
from tests.support.processes.processes import WorkerProcess, Workers
from tests.support.snapshots.damage import cut_off, files_of
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import order, produce, produce_in_transaction

CreateStream = Callable[..., TestStream]

SEED = 20261121
HOUR_MS = 3_600_000
DEDUPE = (sys.executable, "-m", "dedupe_local", "bootstrap")
WORKER = (sys.executable, "-m", "dedupe_worker", "bootstrap")


def called(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=120, check=False
    )


def local(stream: TestStream, source: Path | str, state: Path, *more: str) -> list[str]:
    """Run `dedupe bootstrap`."""
    where = ("--bootstrap-servers", stream.bootstrap_servers, "--state-dir", str(state))
    return [*DEDUPE, str(stream.manifest), "--from", str(source), *where, *more]


def has_counted(worker: WorkerProcess, duplicates: int, produced: int) -> bool:
    counts = worker.status().counts
    return (counts.duplicates, counts.produced) == (duplicates, produced)


def covers(worker: WorkerProcess, seconds: float) -> bool:
    return worker.status().window.seconds >= seconds


def orders(numbers: Iterable[int], partitions: int = 1, *, age_ms: int = HOUR_MS) -> list[Message]:
    now = int(time() * 1000)
    return [
        Message(
            partition=message.partition,
            key=message.key,
            value=message.value,
            headers=message.headers,
            timestamp_ms=now - age_ms,
        )
        for message in (order(SEED, number, partitions=partitions) for number in numbers)
    ]


def write_csv(path: Path, messages: Iterable[Message]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["order", "delivered", "partition"])
        for message in messages:
            writer.writerow(
                [(message.key or b"").decode(), message.timestamp_ms, message.partition]
            )
    return path


CSV_COLUMNS = ("--id-column", "order", "--time-column", "delivered")


def keys_of(messages: Iterable[Message | Record]) -> list[bytes]:
    return [message.key or b"" for message in messages]


def passed(stream: TestStream) -> list[bytes]:
    return keys_of(stream.clean())


def reconcile_reason(worker: WorkerProcess) -> str:
    [line] = [line for line in worker.logs() if line.get("event") == "caught up"]
    return str(line["reason"])


def test_the_stores_are_those_of_the_manifests_cluster(
    streams: CreateStream, workers: Workers, tmp_path: Path
) -> None:
    """They were filled for a broker of their own, and thrown away when the stream started."""
    stream = streams()
    source = write_csv(tmp_path / "ids.csv", orders(range(100)))
    state = tmp_path / "state"

    run = called(*DEDUPE, stream.manifest, "--from", source, "--state-dir", state, *CSV_COLUMNS)

    assert run.returncode == 0, run.stderr
    stream.send(orders(range(150), age_ms=0))
    worker = workers.start(stream, state_dir=state / "partition-0")
    worker.wait_until(partial(has_counted, worker, 100, 50), "100 ids were known")


def test_ids_of_a_file_are_duplicates_to_a_worker(
    streams: CreateStream, workers: Workers, tmp_path: Path
) -> None:
    stream = streams(partitions=2)
    before, after = orders(range(600), 2), orders(range(400, 1_000), 2)
    source = write_csv(tmp_path / "ids.csv", before)

    run = called(*local(stream, source, tmp_path / "state", *CSV_COLUMNS))

    assert run.returncode == 0, run.stderr
    assert "600 ids in 2 partitions" in run.stdout
    stream.send(after)
    for number in (0, 1):
        state = tmp_path / "state" / f"partition-{number}"
        worker = workers.start(stream, number, state_dir=state)
        worker.wait_until_caught_up()
        # The status shows a commit a moment later.
        worker.wait_until(partial(has_counted, worker, 100, 200), "it counted them")
        worker.wait_until(partial(covers, worker, HOUR_MS / 1000), "its status shows the window")
        assert reconcile_reason(worker) == "Tail"
    assert sorted(passed(stream)) == sorted(keys_of(after[200:]))

    again = called(*local(stream, source, tmp_path / "state", *CSV_COLUMNS))
    assert "is in use" in again.stderr


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("dedupe", signal.SIGINT),
        matrix("dedupe", signal.SIGTERM),
        matrix("dedupe-worker", signal.SIGINT),
        ("dedupe-worker", signal.SIGTERM),
    ],
)
def test_a_bootstrap_that_is_stopped_early_ends_with_the_code_of_the_signal(
    streams: CreateStream,
    topics: CreateTopic,
    tmp_path: Path,
    command: str,
    number: signal.Signals,
) -> None:
    """It waits for an open transaction in its source, which is committed later."""
    stream = streams()
    servers, old = stream.bootstrap_servers, topics("old", **{"retention.ms": -1})
    produce(servers, old, orders(range(300)))
    source, state, log = f"topic:{old}", tmp_path / "state" / "partition-0", tmp_path / "log"
    of_worker = [*WORKER, "--config", str(stream.manifest), "--partition=0", f"--state-dir={state}"]
    arguments = {
        "dedupe": local(stream, source, tmp_path / "state"),
        "dedupe-worker": [*of_worker, f"--from={source}"],
    }[command]

    producer = Producer({"bootstrap.servers": servers, "transactional.id": old})
    producer.init_transactions()
    producer.begin_transaction()
    for message in orders(range(300, 310)):
        producer.produce(old, message.value, message.key, 0)
    producer.flush()
    with (
        log.open("w") as said,
        subprocess.Popen(arguments, stdout=said, stderr=subprocess.STDOUT) as process,
    ):
        try:
            wait_for(lambda: "OpenTransaction" in log.read_text(), "it waits")
            process.send_signal(number)
            assert process.wait(timeout=60) == 128 + number, log.read_text()
        finally:
            process.kill()
    producer.commit_transaction()

    assert f"stopped by {number.name} before all was loaded" in log.read_text()
    assert "Traceback" not in log.read_text()
    again = called(*arguments)
    assert again.returncode == 0, again.stderr
    assert "310 ids in 1 partitions" in again.stdout + again.stderr


def test_a_source_that_is_a_url_is_refused(streams: CreateStream, tmp_path: Path) -> None:
    run = called(*local(streams(), "s3a://lake/ids", tmp_path / "state", *CSV_COLUMNS))

    assert run.returncode == 2
    assert "--from: s3a://lake/ids is not on a file system of this machine" in run.stderr


def test_a_store_that_is_in_use_already_is_refused(
    streams: CreateStream, workers: Workers, tmp_path: Path
) -> None:
    stream = streams()
    worker = workers.start(stream, state_dir=tmp_path / "state" / "partition-0")
    worker.wait_until_ready()
    assert worker.sigterm() == ExitCode.OK
    source = write_csv(tmp_path / "ids.csv", orders(range(5)))

    run = called(*local(stream, source, tmp_path / "state", *CSV_COLUMNS))

    assert run.returncode == 3
    assert "has a store already" in run.stderr
    assert "delete the directory" in run.stderr


@pytest.mark.matrix  # tests/faults/test_state_directory.py
def test_a_directory_of_another_partition_is_refused(streams: CreateStream, tmp_path: Path) -> None:
    stream = streams(partitions=2)
    source = write_csv(tmp_path / "ids.csv", orders(range(10), 2))
    options = ("--config", stream.manifest, "--state-dir", tmp_path / "state", "--from", source)
    first = called(*WORKER, *options, *CSV_COLUMNS, "--partition", "0")
    assert first.returncode == ExitCode.OK, first.stderr

    other = called(*WORKER, *options, *CSV_COLUMNS, "--partition", "1")

    assert other.returncode == ExitCode.IDENTITY_REFUSED
    assert "belongs to" in other.stderr
    beyond = called(*WORKER, *options, *CSV_COLUMNS, "--partition", "2")
    assert "has 2 partitions and none with the number 2" in beyond.stderr


def test_a_work_directory_without_room_is_named(streams: CreateStream, tmp_path: Path) -> None:
    stream = streams()
    source = write_csv(tmp_path / "ids.csv", orders(range(50_000)))
    limited = (
        f"ulimit -f 64; exec {shlex.join(local(stream, source, tmp_path / 'state', *CSV_COLUMNS))}"
    )

    run = called("bash", "-c", limited)

    assert run.returncode == 3
    assert "Traceback" not in run.stderr
    assert str(tmp_path / "state" / "bootstrap") in run.stderr
    assert called(*local(stream, source, tmp_path / "state", *CSV_COLUMNS)).returncode == 0


def test_ids_of_a_topic_are_duplicates_but_for_aborted_ones(
    streams: CreateStream, workers: Workers, topics: CreateTopic
) -> None:
    stream = streams()
    old = topics("old", **{"retention.ms": -1})
    produce_in_transaction(stream.bootstrap_servers, old, orders(range(300)), commit=True)
    produce_in_transaction(stream.bootstrap_servers, old, orders(range(300, 400)), commit=False)
    state = workers.state_dir(stream)
    options = ("--config", stream.manifest, "--state-dir", state, "--from", f"topic:{old}")

    run = called(*WORKER, *options, "--partition", "0")

    assert run.returncode == ExitCode.OK, run.stderr
    stream.send(orders(range(500)))
    workers.start(stream).wait_until_caught_up()
    assert passed(stream) == keys_of(orders(range(300, 500)))


def test_ids_of_a_topic_with_other_partitions_go_where_producers_send_them(
    streams: CreateStream, workers: Workers, topics: CreateTopic, tmp_path: Path
) -> None:
    stream = streams(partitions=3)
    old = topics("old", **{"retention.ms": -1})
    produce(stream.bootstrap_servers, old, orders(range(300)))
    command = local(stream, f"topic:{old}", tmp_path / "state")
    refused = called(*command)
    assert "has 1 partitions and the input 3" in refused.stderr
    assert "--partition-by" in refused.stderr

    run = called(*command, "--partition-by", "murmur2")

    assert run.returncode == 0, run.stderr
    send_keys(stream.bootstrap_servers, stream.input_topic, "murmur2", orders(range(350)))
    for number in range(3):
        state = tmp_path / "state" / f"partition-{number}"
        workers.start(stream, number, state_dir=state).wait_until_caught_up()
    assert sorted(passed(stream)) == sorted(keys_of(orders(range(300, 350))))


def test_a_rebuild_that_loses_ids_of_the_past_says_that_the_window_is_shorter(
    streams: CreateStream, workers: Workers, tmp_path: Path
) -> None:
    stream = streams()
    source = write_csv(tmp_path / "ids.csv", orders(range(100)))
    assert called(*local(stream, source, tmp_path / "state", *CSV_COLUMNS)).returncode == 0
    state = tmp_path / "state" / "partition-0"
    for file in files_of(state / "db", "*.sst"):
        cut_off(file, 0.5)

    worker = workers.start(stream, state_dir=state)
    worker.wait_until_ready()

    assert reconcile_reason(worker) == "StoreCorrupt"
    worker.wait_until(
        lambda: worker.status().window.truncated, "it says that the window is shorter"
    )


def test_the_streams_own_input_counts_as_delivered_only_up_to_a_time(
    streams: CreateStream, workers: Workers, tmp_path: Path
) -> None:
    stream = streams()
    stream.send(orders(range(100), age_ms=2 * HOUR_MS))
    stream.send(orders(range(50, 200), age_ms=0))
    command = local(stream, f"topic:{stream.input_topic}", tmp_path / "state")
    assert "would count as delivered" in called(*command).stderr
    an_hour_ago = np.datetime64(int(time() * 1000) - HOUR_MS, "ms")

    run = called(*command, "--before", f"{an_hour_ago}Z")

    assert run.returncode == 0, run.stderr
    assert "150 that are not from before --before" in run.stdout
    workers.start(stream, state_dir=tmp_path / "state" / "partition-0").wait_until_caught_up()
    assert passed(stream) == keys_of(orders(range(100, 200)))


def send_keys(servers: str, topic: str, partitioner: str, messages: Iterable[Message]) -> None:
    """Send messages, and let librdkafka's partitioner choose the partition."""
    producer = Producer({"bootstrap.servers": servers, "partitioner": partitioner})
    for message in messages:
        producer.produce(topic, message.value, message.key)
    assert producer.flush(30) == 0


@pytest.mark.parametrize(
    ("partitioner", "of_librdkafka"),
    [
        (Partitioner.MURMUR2, "murmur2"),
        (Partitioner.MURMUR2, "murmur2_random"),
        (Partitioner.CRC32, "consistent"),
        (Partitioner.CRC32, "consistent_random"),
        (Partitioner.FNV1A, "fnv1a"),
        (Partitioner.FNV1A, "fnv1a_random"),
    ],
)
def test_partitions_are_those_that_a_producer_chooses(
    partitioner: Partitioner, of_librdkafka: str, streams: CreateStream
) -> None:
    stream = streams(partitions=3)
    keys = [b"key-%d" % n for n in range(60)] + [b"k" * n for n in range(1, 40)]
    messages = [Message(partition=0, key=key, value=b"") for key in keys]
    send_keys(stream.bootstrap_servers, stream.input_topic, of_librdkafka, messages)

    sent = {r.key: r.partition for r in read_topic(stream.bootstrap_servers, stream.input_topic)}

    found = partitions_of(keys, 3, partitioner).tolist()
    assert sent == dict(zip(keys, found, strict=True))


def test_killed_while_it_reads_and_while_it_writes_it_goes_on(
    streams: CreateStream, workers: Workers, tmp_path: Path
) -> None:
    stream = streams()
    rows = 4_500_000  # three runs, and five ranges
    source = tmp_path / "ids.parquet"
    ids = np.random.default_rng(SEED).bytes(16 * rows)
    uuids = b"".join(UUID(key.decode()).bytes for key in keys_of(orders(range(50))))
    ids = uuids + ids[len(uuids) :]
    seen = pa.array(np.full(rows, int(time() * 1000) - HOUR_MS))
    column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), rows, [None, pa.py_buffer(ids)])
    parquet.write_table(pa.table({"id16": column, "seen_ms": seen}), source)
    state = workers.state_dir(stream)
    work = state / "bootstrap" / "partition-0"
    command: list[str | Path] = [
        *WORKER,
        "--config",
        stream.manifest,
        "--state-dir",
        state,
        "--partition",
        "0",
    ]
    command += ["--from", source]
    inodes = []
    # The first run is recorded once a second run has begun.
    for pattern in ("run-000001.npy", "*.sst"):
        with (tmp_path / f"{pattern[0]}.log").open("wb") as log:
            process = child_process.spawn(command, output=log, env={**os.environ})
            found = wait_for(
                lambda p=pattern: sorted(work.glob(p)),  # type: ignore[misc]
                f"{pattern} is there",
                poll_seconds=0.01,
                explain=Path(log.name).read_text,
            )
            process.kill()
            process.wait()
        assert not (state / "identity.json").exists()
        inodes.append(found[0].stat().st_ino if pattern == "*.sst" else 0)
        inodes.append((work / "run-000000.npy").stat().st_ino)
    assert inodes[1] == inodes[3]  # the first run was not written again

    run = called(*command)

    assert run.returncode == ExitCode.OK, run.stderr
    assert f"{rows:,} ids in 1 partitions" in run.stderr
    assert not (state / "bootstrap").exists()
    stream.send(orders(range(100)))
    worker = workers.start(stream)
    worker.wait_until_caught_up()
    assert passed(stream) == keys_of(orders(range(50, 100)))
