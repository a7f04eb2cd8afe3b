"""A stream that runs without routers gets them by its manifest: each id still passes once."""

import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
import yaml

from dedupe_crds.manifest import load_manifest
from dedupe_crds.status.growth import GrowthStep
from dedupe_local.run.fleet import Fleet
from dedupe_local.state_dir import StateDir
from tests.component.local.test_growth import wait_grown
from tests.component.local.test_repartition import scattered
from tests.support.checker.id_sources import header_id
from tests.support.checker.record import Message
from tests.support.checker.repartitioned import judge_repartitioned
from tests.support.patience import wait_for
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import PacedProducer

CreateStream = Callable[..., TestStream]

SEED = 20261125
PARTITIONS = 3
IDS = {"from": "Header", "name": "id"}


def together(count: int, seed: int) -> list[Message]:
    """Each id twice, without a key, both in one partition."""
    rng = random.Random(seed)
    ids = [str(UUID(int=rng.getrandbits(128), version=4)).encode() for _ in range(count)]
    return [
        Message(raw[0] % PARTITIONS, None, b"order", (("id", raw),))
        for raw in rng.sample(ids * 2, 2 * count)
    ]


def elsewhere(messages: list[Message], seed: int) -> list[Message]:
    """Send the same ids again, to any partition."""
    rng = random.Random(seed)
    return [replace(each, partition=rng.randrange(PARTITIONS)) for each in messages]


def add_routers(stream: TestStream, partitions: int) -> None:
    """Change the manifest."""
    document = yaml.safe_load(stream.manifest.read_text())
    document["spec"]["repartition"] = {"partitions": partitions, "routers": {"replicas": 2}}
    stream.manifest.write_text(yaml.safe_dump(document))


def fleet_of(stream: TestStream, state: StateDir) -> Fleet:
    return Fleet(load_manifest(stream.manifest), state)


def assert_exact(stream: TestStream) -> None:
    stream.settle()
    found = judge_repartitioned({stream.input_topic: stream.raw()}, stream.clean(), header_id("id"))
    found.assert_exactly_once()


@pytest.mark.matrix  # tests/faults/test_change_in_place.py
@pytest.mark.timeout(600)
def test_a_stream_gets_routers_under_traffic(streams: CreateStream, tmp_path: Path) -> None:
    stream = streams(partitions=PARTITIONS, id=IDS)
    first = together(1_500, SEED)
    stream.send(first)
    with StateDir(tmp_path / "state") as state:
        with fleet_of(stream, state) as fleet:
            fleet.wait_drained()
            # What is in flight at the stop is the routers' to route, or is in the output.
            stream.send(together(1_500, SEED + 1))
        stream.send(together(500, SEED + 4))  # no worker has read it
        add_routers(stream, 5)
        again = [*elsewhere(first, SEED), *scattered(6_000, PARTITIONS, SEED + 2)]
        rate = PacedProducer(
            stream.bootstrap_servers, stream.input_topic, again, messages_per_second=500
        )
        with fleet_of(stream, state) as fleet:
            with rate:
                wait_grown(fleet)
            growth = fleet.view().growth
            assert growth is not None
            assert (growth.step, growth.adds_routers) == (GrowthStep.DONE, True)
            fleet.wait_drained()
    assert_exact(stream)
    assert {record.partition for record in stream.clean()} == {0, 1, 2, 3, 4}


@pytest.mark.matrix  # tests/faults/test_change_in_place.py
@pytest.mark.timeout(600)
def test_a_run_takes_its_stream_behind_routers_and_grows_it_without_a_restart(
    streams: CreateStream, tmp_path: Path
) -> None:
    stream = streams(partitions=PARTITIONS, id=IDS)
    first = together(1_000, SEED)
    stream.send(first)
    command = [sys.executable, "-m", "dedupe_local", "run", str(stream.manifest)]
    command += ["--bootstrap-servers", stream.bootstrap_servers]
    command += ["--state-dir", str(tmp_path / "state")]
    log = tmp_path / "run.log"

    def wait_until_exact(count: int) -> None:
        wait_for(
            lambda: len(stream.clean()) >= count,
            f"{count} ids have passed",
            deadline_seconds=150,
            explain=log.read_text,
        )
        assert_exact(stream)

    with log.open("wb") as output:
        run = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_until_exact(1_000)
            for partitions, count in ((3, 1_500), (4, 2_000)):
                add_routers(stream, partitions)
                # Without routers a copy in another partition passes.
                wait_for(
                    lambda: "Change to routers" in log.read_text(),
                    "the workers are stopped",
                    deadline_seconds=60,
                    explain=log.read_text,
                )
                stream.send(elsewhere(first, SEED))
                stream.send(scattered(500, PARTITIONS, SEED + partitions))
                wait_until_exact(count)
        finally:
            run.terminate()
            assert run.wait(60) == 0, log.read_text()
    assert_exact(stream)
    said = log.read_text()
    assert "The stream gets routers" in said
    assert "Change to routers from 3 to 3 partitions" in said
    assert "The stream grows from 3 to 4 partitions." in said
