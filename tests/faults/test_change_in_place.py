"""Processes are killed, and lose their volumes, while a stream gets routers: each id still passes once."""

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.growth import GrowthStep
from dedupe_local.run.fleet import Fleet
from dedupe_local.state_dir import StateDir
from tests.faults.seed import SEED
from tests.faults.test_growth import MOST_RECORDS, Run, without_keys
from tests.support.crashes.inner_crashes import FaultWorkers
from tests.support.patience import HANG_SECONDS
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import ID_HEADER, PacedProducer, retries

CreateStream = Callable[..., TestStream]

RUNS = 8
PARTITIONS = 3
RATE = 300.0


class Change(Run):
    """A stream without routers that gets them."""

    def add_routers(self, partitions: int) -> None:
        document = yaml.safe_load(self.stream.manifest.read_text())
        document["spec"]["repartition"] = {"partitions": partitions, "routers": {"replicas": 2}}
        self.stream.manifest.write_text(yaml.safe_dump(document))

    def wait_handed_over(self, fleet: Fleet) -> None:
        """Wait until no worker reads the input any more."""
        while not self.seen & {GrowthStep.READING_REST, GrowthStep.DONE}:
            self.watch(fleet, 0.1)


@pytest.fixture
def change(streams: CreateStream, tmp_path: Path) -> Change:
    stream = streams(partitions=PARTITIONS, id={"from": "Header", "name": ID_HEADER})
    return Change(stream, tmp_path / "state", random.Random(SEED))


@contextmanager
def traffic(stream: TestStream, *, scattered: bool) -> Iterator[None]:
    """Send ids meanwhile, the copies of each to one partition unless they are scattered."""
    messages = (
        without_keys(SEED, PARTITIONS)
        if scattered
        else (replace(m, key=None) for m in retries(SEED, MOST_RECORDS, partitions=PARTITIONS))
    )
    servers, topic = stream.bootstrap_servers, stream.input_topic
    with PacedProducer(servers, topic, messages, messages_per_second=RATE):
        yield


@pytest.mark.matrix  # the simulation of the change, and workers that nobody stopped
def test_kills_restarts_and_volumes_that_are_lost_or_older(change: Change, tmp_path: Path) -> None:
    with traffic(change.stream, scattered=False):
        with change.fleet() as fleet:
            fleet.wait_ready(HANG_SECONDS)
            change.watch(fleet, 3)
            change.kill_one(fleet)
        before, state = tmp_path / "before", StateDir(change.root).partition(1)
        shutil.copytree(state, before)  # as a snapshot does
        change.add_routers(4)
        for _ in range(RUNS):
            with change.fleet() as fleet:
                for _ in range(3):
                    change.watch(fleet, 2 * change.rng.random())
                    change.kill_one(fleet)
            change.lose_volume(change.rng.randrange(4))
        with change.fleet() as fleet:
            change.wait_handed_over(fleet)
    with traffic(change.stream, scattered=True):
        with change.fleet() as fleet:
            change.kill_one(fleet)
            change.wait_grown(fleet)
        change.lose_volume(1)
        shutil.copytree(before, state)
        with change.fleet() as fleet:
            fleet.wait_ready(HANG_SECONDS)
            change.watch(fleet, 3)
    with change.fleet() as fleet:
        fleet.wait_drained()
    change.assert_exact()
    assert GrowthStep.DONE in change.seen
    assert {record.partition for record in change.stream.clean()} == set(range(4))


@pytest.mark.proof
def test_workers_that_nobody_has_stopped_are_fenced(change: Change, workers: FaultWorkers) -> None:
    """As on nodes that are cut off: they read the input until the new workers take over."""
    stream = change.stream
    with traffic(stream, scattered=False):
        old = [workers.start(stream, partition) for partition in range(PARTITIONS)]
        for each in old:
            each.wait_until_ready()
        change.add_routers(5)
        with change.fleet() as fleet:
            change.wait_handed_over(fleet)
            assert {each.wait_until_ended() for each in old} == {ExitCode.FENCED}
            change.wait_grown(fleet)
            fleet.wait_drained()
    with traffic(stream, scattered=True), change.fleet() as fleet:
        change.watch(fleet, 5)
    with change.fleet() as fleet:
        fleet.wait_drained()
    change.assert_exact()
