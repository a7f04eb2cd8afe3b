"""`dedupe run` of a stream with routers."""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from tests.support.checker.id_sources import header_id
from tests.support.checker.record import Message
from tests.support.checker.repartitioned import judge_repartitioned
from tests.support.patience import HANG_SECONDS
from tests.support.processes.routers import RoutedStream

CreateStream = Callable[..., RoutedStream]

SEED = 20261125


def run(stream: RoutedStream, state: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dedupe_local", "run", str(stream.manifest), "--drain"]
    command += ["--bootstrap-servers", stream.bootstrap_servers, "--state-dir", str(state)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )


def scattered(count: int, partitions: int, seed: int) -> list[Message]:
    """Each id twice, without a key, in partitions at random."""
    rng = random.Random(seed)
    ids = [str(UUID(int=rng.getrandbits(128), version=4)).encode() for _ in range(count)]
    return [
        Message(rng.randrange(partitions), None, b"order", (("id", raw),))
        for raw in rng.sample(ids * 2, 2 * count)
    ]


def test_a_drain_ends_when_all_is_routed_and_deduplicated(
    routed_streams: CreateStream, tmp_path: Path
) -> None:
    stream = routed_streams(
        inputs=(3, 1),
        partitions=2,
        id={"from": "Header", "name": "id"},
        repartition={"routers": {"replicas": 2}},
    )
    for name, partitions in zip(stream.inputs, (3, 1), strict=True):
        stream.send_to(name, scattered(1_000, partitions, SEED))
    done = run(stream, tmp_path / "state")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "router 1: Running" in done.stdout
    assert "Read 4,000 records, duplicates: 3,000 (75.0 %)" in done.stdout
    judge_repartitioned(stream.raws(), stream.clean(), header_id("id")).assert_exactly_once(
        2 * 2 * 1_000
    )


@pytest.mark.matrix  # tests/component/router
def test_a_second_run_goes_on_where_the_first_has_ended(
    routed_streams: CreateStream, tmp_path: Path
) -> None:
    stream = routed_streams(inputs=(2,), partitions=2, id={"from": "Header", "name": "id"})
    for _ in range(2):
        stream.send_to(stream.inputs[0], scattered(500, 2, SEED))
        done = run(stream, tmp_path / "state")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Read 1,000 records" in done.stdout
    found = judge_repartitioned(stream.raws(), stream.clean(), header_id("id"))
    found.assert_exactly_once(2 * 2 * 500)
    assert found.expected == 500
