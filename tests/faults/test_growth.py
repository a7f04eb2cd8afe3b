"""Processes are killed, stopped and lose their volumes while a stream grows: each id still passes once."""

import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import yaml

from dedupe_crds.manifest import load_manifest
from dedupe_crds.status.growth import GrowthStep
from dedupe_local.run.fleet import Fleet
from dedupe_local.state_dir import StateDir
from tests.faults.seed import SEED
from tests.support.checker.id_sources import header_id
from tests.support.checker.record import Message
from tests.support.checker.repartitioned import judge_repartitioned
from tests.support.layers import matrix
from tests.support.patience import wait_for
from tests.support.processes.routers import RoutedStream
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import ID_HEADER, PacedProducer, retries

CreateStream = Callable[..., RoutedStream]

INPUTS = (3, 2)
RATE = 200.0
MOST_RECORDS = 200_000


@pytest.fixture
def stream(routed_streams: CreateStream) -> RoutedStream:
    return routed_streams(
        inputs=INPUTS,
        partitions=2,
        id={"from": "Header", "name": ID_HEADER},
        repartition={"routers": {"replicas": 2}},
    )


def without_keys(seed: int, partitions: int) -> Iterator[Message]:
    """Each message in a partition at random, as a producer without keys sends it."""
    rng = random.Random(seed)
    for each in retries(SEED, MOST_RECORDS, value_bytes=50):
        yield replace(each, key=None, partition=rng.randrange(partitions))


@contextmanager
def traffic(stream: RoutedStream) -> Iterator[None]:
    """Send the same ids to both inputs meanwhile."""
    with ExitStack() as senders:
        for number, (name, partitions) in enumerate(zip(stream.inputs, INPUTS, strict=True)):
            messages = without_keys(SEED + number, partitions)
            servers = stream.bootstrap_servers
            sender = PacedProducer(servers, name, messages, messages_per_second=RATE)
            senders.enter_context(sender)
        yield


@dataclass
class Run:
    """A stream under `dedupe run`, which may itself end at any time."""

    stream: TestStream
    root: Path
    rng: random.Random
    seen: set[GrowthStep] = field(default_factory=set)

    def ask_for(self, partitions: int) -> None:
        document = yaml.safe_load(self.stream.manifest.read_text())
        document["spec"]["repartition"]["partitions"] = partitions
        self.stream.manifest.write_text(yaml.safe_dump(document))

    @contextmanager
    def fleet(self) -> Iterator[Fleet]:
        with (
            StateDir(self.root) as state,
            Fleet(load_manifest(self.stream.manifest), state) as fleet,
        ):
            yield fleet

    def watch(self, fleet: Fleet, seconds: float) -> None:
        """Let it run for this long."""
        fleet.wait(seconds)
        if growth := fleet.view().growth:
            self.seen.add(growth.step)

    def wait_grown(self, fleet: Fleet) -> None:
        def grown() -> bool:
            self.watch(fleet, 0.1)
            return not fleet.growing

        wait_for(
            grown,
            "the growth is done",
            deadline_seconds=240,
            explain=lambda: f"{fleet.notes()}\n{fleet.view()}",
        )

    def kill_one(self, fleet: Fleet) -> None:
        """Kill a worker or a router, or stop it for a while."""
        fleet.wait(0.1)
        view = fleet.view()
        pids = [*(each.pid for each in view.workers), *(each.pid for each in view.routers)]
        victim = self.rng.choice(pids)
        if victim is None:  # it starts again just now
            return
        with suppress(ProcessLookupError):  # it has ended by itself
            if self.rng.random() < 0.3:
                os.kill(victim, signal.SIGSTOP)
                self.watch(fleet, 2 * self.rng.random())
                os.kill(victim, signal.SIGCONT)
            else:
                os.kill(victim, signal.SIGKILL)

    def lose_volume(self, partition: int) -> None:
        shutil.rmtree(StateDir(self.root).partition(partition), ignore_errors=True)

    def assert_exact(self) -> None:
        self.stream.settle()
        verdict = judge_repartitioned(self.stream.raws(), self.stream.clean(), header_id(ID_HEADER))
        verdict.assert_exactly_once()


@pytest.mark.timeout(900)  # the machine is busy with other tests
@pytest.mark.parametrize("runs", [2, matrix(10)])
def test_kills_restarts_and_lost_volumes(stream: RoutedStream, tmp_path: Path, runs: int) -> None:
    """Each run is killed while it grows; between two runs the volume of a partition is lost."""
    run = Run(stream, tmp_path / "state", random.Random(SEED))
    with traffic(stream):
        with run.fleet() as fleet:
            fleet.wait_ready(120)
            run.watch(fleet, 3)
        run.ask_for(4)
        for _ in range(runs):
            with run.fleet() as fleet:
                for _ in range(3):
                    run.watch(fleet, 3 * run.rng.random())
                    run.kill_one(fleet)
            run.lose_volume(run.rng.randrange(4))
        run.ask_for(5)
        with run.fleet() as fleet:
            run.kill_one(fleet)
            run.wait_grown(fleet)
            run.lose_volume(4)  # under its worker, which is killed then
            pid = fleet.pid(4)
            if pid:
                os.kill(pid, signal.SIGKILL)
            fleet.wait_ready(120)
            run.watch(fleet, 3)
    with run.fleet() as fleet:
        fleet.wait_drained()
    run.assert_exact()
    assert GrowthStep.DONE in run.seen
    assert {record.partition for record in stream.clean()} == set(range(5))
