"""`dedupe run` takes a stream to more partitions while it runs: each id still passes once."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from dedupe_crds.manifest import load_manifest
from dedupe_crds.status.growth import GrowthStep
from dedupe_local.run.fleet import Fleet
from dedupe_local.state_dir import StateDir
from tests.component.local.test_repartition import scattered
from tests.support.checker.id_sources import header_id
from tests.support.checker.repartitioned import judge_repartitioned
from tests.support.patience import wait_for
from tests.support.processes.routers import RoutedStream
from tests.support.traffic.traffic import PacedProducer

CreateStream = Callable[..., RoutedStream]

SEED = 20261125
INPUTS = (3, 1)


def ask_for(stream: RoutedStream, partitions: int) -> None:
    """Change the manifest."""
    document = yaml.safe_load(stream.manifest.read_text())
    document["spec"]["repartition"]["partitions"] = partitions
    stream.manifest.write_text(yaml.safe_dump(document))


def fleet_of(stream: RoutedStream, state: StateDir) -> Fleet:
    return Fleet(load_manifest(stream.manifest), state)


def wait_grown(fleet: Fleet, seconds: float = 120) -> None:
    def grown() -> bool:
        fleet.wait(0.1)
        return not fleet.growing

    wait_for(
        grown, "the growth is done", deadline_seconds=seconds, explain=lambda: str(fleet.view())
    )


def assert_exact(stream: RoutedStream) -> None:
    stream.settle()
    clean = stream.clean()
    judge_repartitioned(stream.raws(), clean, header_id("id")).assert_exactly_once()


@pytest.mark.matrix  # tests/faults/test_growth.py
@pytest.mark.timeout(600)
def test_a_stream_grows_under_traffic(routed_streams: CreateStream, tmp_path: Path) -> None:
    stream = routed_streams(
        inputs=INPUTS,
        partitions=2,
        id={"from": "Header", "name": "id"},
        repartition={"routers": {"replicas": 2}},
    )
    first = {
        n: scattered(1_500, count, SEED) for n, count in zip(stream.inputs, INPUTS, strict=True)
    }
    for name, messages in first.items():
        stream.send_to(name, messages)
    with StateDir(tmp_path / "state") as state:
        with fleet_of(stream, state) as fleet:
            fleet.wait_drained()
        ask_for(stream, 5)
        # Enough for a slow machine: new ids must still come when the routers have switched.
        again = [*first[stream.inputs[0]] * 20, *scattered(30_000, INPUTS[0], SEED + 1)]
        random.Random(SEED).shuffle(again)
        rate = PacedProducer(
            stream.bootstrap_servers, stream.inputs[0], again, messages_per_second=500
        )
        with fleet_of(stream, state) as fleet:
            with rate:
                wait_grown(fleet)
            growth = fleet.view().growth
            assert growth is not None
            assert growth.step is GrowthStep.DONE
            for name, messages in first.items():
                stream.send_to(name, messages)
            # Ids that the new partitions see, however long the growth took.
            stream.send_to(stream.inputs[0], scattered(1_500, INPUTS[0], SEED + 2))
            fleet.wait_drained()
        logs = [state.router(number) / "router.log" for number in range(2)]
        assert not any("session failed" in log.read_text() for log in logs)  # no id waited for that
    assert_exact(stream)
    assert {record.partition for record in stream.clean()} == {0, 1, 2, 3, 4}
