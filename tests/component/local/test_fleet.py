"""A fleet on a real broker restarts workers, and passes each message once."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from dedupe_crds.manifest import load_manifest
from dedupe_crds.status.exit_code import ExitCode
from dedupe_local.errors import NotDrained, WorkerEnded
from dedupe_local.run.fleet import Fleet
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_local.state_dir import StateDir
from tests.support.checker.checker import judge
from tests.support.checker.id_sources import key_id
from tests.support.patience import HANG_SECONDS, wait_for
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import PacedProducer, retries

CreateStream = Callable[..., TestStream]

SEED = 20261121
PARTITIONS = 2


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDir]:
    with StateDir(tmp_path / "state") as ours:
        yield ours


def fleet_of(stream: TestStream, state: StateDir) -> Fleet:
    return Fleet(load_manifest(stream.manifest), state)


def send(stream: TestStream, count: int, *, start: int = 0) -> None:
    messages = retries(SEED, count, partitions=PARTITIONS, start=start)
    stream.send(messages)


@pytest.mark.proof
def test_a_drained_fleet_has_passed_every_message_exactly_once(
    streams: CreateStream, state: StateDir
) -> None:
    stream = streams(partitions=PARTITIONS)
    send(stream, 5_000)

    with fleet_of(stream, state) as fleet:
        fleet.wait_drained()
        views = fleet.views()

    judge(stream.raw(), stream.clean(), key_id).assert_exactly_once(5_000)
    assert sum(view.consumed for view in views) == 5_000
    assert 0 < sum(view.duplicates for view in views) < 5_000
    assert not any(view.restarts for view in views)


@pytest.mark.matrix  # the worker killed in test_demo.py
def test_a_worker_that_is_killed_comes_back_and_nothing_passes_twice(
    streams: CreateStream, state: StateDir
) -> None:
    stream = streams(partitions=PARTITIONS)
    with fleet_of(stream, state) as fleet:
        fleet.wait_ready(HANG_SECONDS)
        killed, spared = fleet.pid(0), fleet.pid(1)
        assert killed is not None
        traffic = list(retries(SEED, 6_000, partitions=PARTITIONS))
        with PacedProducer(
            stream.bootstrap_servers, stream.input_topic, traffic, messages_per_second=2_000
        ) as producer:
            wait_for(lambda: fleet.views()[0].consumed, "records read")
            os.kill(killed, signal.SIGKILL)
            wait_for(lambda: fleet.views()[0].restarts == 1, "a restart")
            producer.finish(60)
        fleet.wait_drained()

        assert fleet.pid(0) not in (None, killed)
        assert fleet.pid(1) == spared
        assert fleet.views()[0].last_exit is None

    judge(stream.raw(), stream.clean(), key_id).assert_exactly_once(len(traffic))


def test_a_fleet_stops_its_workers_gracefully_and_leaves_none(
    streams: CreateStream, state: StateDir
) -> None:
    stream = streams(partitions=PARTITIONS)
    fleet = fleet_of(stream, state)
    fleet.start()
    fleet.wait_ready(HANG_SECONDS)
    processes = [psutil.Process(fleet.pid(partition)) for partition in range(PARTITIONS)]

    assert fleet.stop()

    assert not any(process.is_running() for process in processes)


def test_a_worker_whose_directory_is_anothers_ends_the_fleet_with_its_reason(
    streams: CreateStream, state: StateDir
) -> None:
    stream = streams(partitions=PARTITIONS)
    with fleet_of(stream, state) as fleet:
        fleet.wait_ready(HANG_SECONDS)
    state.partition(0).rename(state.root / "aside")
    state.partition(1).rename(state.partition(0))
    refusal = f"partition 0 ended with exit code {ExitCode.IDENTITY_REFUSED} .*belongs to"

    with fleet_of(stream, state) as fleet, pytest.raises(WorkerEnded, match=refusal):
        fleet.wait_ready(HANG_SECONDS)

    assert fleet.statuses() == [None] * PARTITIONS
    assert fleet.pid(1) is None


def test_a_partition_that_cannot_go_on_ends_a_drain_with_its_reason(
    streams: CreateStream, state: StateDir
) -> None:
    stream = streams(partitions=PARTITIONS, output={"max.message.bytes": 300})
    send(stream, 100)

    refusal = r"No progress any more: partition \d .*raise max\.message\.bytes of the output topic"
    with fleet_of(stream, state) as fleet, pytest.raises(NotDrained, match=refusal):
        fleet.wait_drained(stall_seconds=30)

    assert "accepts messages of 300 bytes" in "".join(fleet.warnings)


def test_a_drain_does_not_end_before_an_open_transaction_in_the_input(
    streams: CreateStream, state: StateDir, broker: EmbeddedBroker
) -> None:
    stream = streams(partitions=PARTITIONS)
    send(stream, 10)
    other = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": f"other-{stream.input_topic}",
            "transaction.timeout.ms": 600_000,
        }
    )
    other.init_transactions(HANG_SECONDS)
    other.begin_transaction()
    other.produce(stream.input_topic, b"in it", b"in it", partition=0)
    assert other.flush(HANG_SECONDS) == 0

    with fleet_of(stream, state) as fleet:
        with pytest.raises(NotDrained, match=r"No progress any more: partition 0 is at offset"):
            fleet.wait_drained(stall_seconds=15)
        other.commit_transaction(HANG_SECONDS)
        fleet.wait_drained()

    assert b"in it" in {record.value for record in stream.clean()}
