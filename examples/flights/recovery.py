"""Kills a worker with SIGKILL, and measures the recovery of its partition."""

import os
import signal
import time
from contextlib import closing
from dataclasses import dataclass

import httpx
from confluent_kafka import Consumer, TopicPartition

from dedupe_crds.status.worker import WorkerStatus
from dedupe_local.run.fleet import Fleet
from dedupe_local.run.worker_process import WorkerView
from dedupe_local.state_dir import StateDir
from examples.flights.outcome import Recovery

_ANSWER_SECONDS = 10.0
_LIMIT_SECONDS = 120.0
_POLL_SECONDS = 0.02


class NotRecovered(Exception):
    """The partition of a killed worker did not recover in time."""


@dataclass(frozen=True)
class Kill:
    """A worker that was killed, and a reader at the end of what it had produced."""

    worker: WorkerView
    at: float
    reader: Consumer


def kill(fleet: Fleet, state: StateDir, partition: int) -> Kill:
    """Kill a partition's worker, and return once it has ended.

    What is sent after that is left to its successor.

    Raises:
        NotRecovered: there was no worker to kill.
    """
    killed = fleet.views()[partition]
    if killed.pid is None:
        raise NotRecovered(
            f"The worker of partition {partition} ended before it was killed ({killed.last_exit}): "
            f"run the demo with --keep and read worker.log in {state.partition(partition)}."
        )
    # Connect before the kill, because the successor may produce its first record very soon.
    reader = _reader(fleet)
    os.kill(killed.pid, signal.SIGKILL)
    at = time.monotonic()
    while fleet.pid(partition) == killed.pid:
        fleet.wait(_POLL_SECONDS)
    _go_to_end(reader, TopicPartition(fleet.stream.spec.output.topic, partition))
    return Kill(killed, at, reader)


def follow(fleet: Fleet, state: StateDir, done: Kill, began: float) -> Recovery:
    """Return after the successor of a killed worker has produced a record.

    `began` is the zero of the timeline's clock, by `time.monotonic`.

    Raises:
        NotRecovered: there was no successor in time.
    """
    killed, partition = done.worker, done.worker.partition
    status = ready_seconds = output_seconds = None
    with closing(done.reader) as reader, httpx.Client(timeout=1.0, trust_env=False) as http:
        while status is None or ready_seconds is None or output_seconds is None:
            _check(fleet, state, partition, done.at)
            if output_seconds is None and _has_record(reader):
                output_seconds = time.monotonic() - done.at
            if status is None and (status := _ready_status(http, state, partition)):
                ready_seconds = time.monotonic() - done.at
    return Recovery(
        partition=partition,
        killed_pid=killed.pid or 0,
        killed_at_seconds=done.at - began,
        read_before=killed.consumed,
        catch_up_records=status.reconcile.records if status.reconcile else 0,
        ready_seconds=ready_seconds,
        output_seconds=output_seconds,
    )


def _check(fleet: Fleet, state: StateDir, partition: int, killed_at: float) -> None:
    fleet.wait(0)  # raises if the fleet cannot recover
    if time.monotonic() - killed_at > _LIMIT_SECONDS:
        raise NotRecovered(
            f"The worker of partition {partition} has not recovered {_LIMIT_SECONDS:.0f} s after it was "
            f"killed: run the demo with --keep and read worker.log in {state.partition(partition)}."
        )


def _reader(fleet: Fleet) -> Consumer:
    """Return a read_committed consumer that is connected to the broker."""
    spec = fleet.stream.spec
    reader = Consumer(
        {
            "bootstrap.servers": spec.kafka.bootstrap_servers,
            "group.id": "demo-recovery",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    reader.list_topics(spec.output.topic, timeout=_ANSWER_SECONDS)
    return reader


def _go_to_end(reader: Consumer, where: TopicPartition) -> None:
    """Seek to the end. The open transaction of the killed process will be aborted."""
    _, end = reader.get_watermark_offsets(where, timeout=_ANSWER_SECONDS)
    reader.assign([TopicPartition(where.topic, where.partition, end)])


def _has_record(reader: Consumer) -> bool:
    message = reader.poll(_POLL_SECONDS)
    return message is not None and message.error() is None


def _ready_status(http: httpx.Client, state: StateDir, partition: int) -> WorkerStatus | None:
    """Return a worker's status if it is ready; the fleet polls it only twice a second."""
    try:
        endpoint = (state.partition(partition) / "endpoint").read_text().strip()
        answer = http.get(f"http://{endpoint}/status")
    except (OSError, httpx.HTTPError, httpx.InvalidURL):
        return None  # it is starting
    status = WorkerStatus.model_validate_json(answer.content)
    return status if status.ready else None
