"""Peers take turns; one that fails does not stop the others, and is told."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.harness.traffic import Traffic
from benchmarks.peers import measure
from benchmarks.peers.catalogue import PEERS
from benchmarks.peers.measure import measure_peers
from benchmarks.peers.peer import Peer
from benchmarks.peers.results import CrashRun, Peers, SteadyRun
from benchmarks.peers.traffic import Input
from tests.unit.benchmarks.peers.runs import crash, run

THREE = [PEERS[name] for name in ("quix", "flink", "bare")]


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of those who had a turn, with a ! for a crash run; Flink fails in the second round."""
    had: list[str] = []

    def steady(_testbed: object, peer: Peer, _source: object) -> SteadyRun:
        had.append(peer.name)
        if peer.name == "flink" and had.count("flink") == 2:
            raise BenchmarkFailed("no slots")
        return run()

    def crashes(_testbed: object, peer: Peer, _source: object) -> CrashRun:
        had.append(f"{peer.name}!")
        return crash()

    source = Input("raw", Traffic(np.arange(1), np.arange(1)), [1, 0])
    monkeypatch.setattr(measure, "send_input", lambda *_, **__: source)
    monkeypatch.setattr(measure, "_steady_run", steady)
    monkeypatch.setattr(measure, "_crash_run", crashes)
    monkeypatch.setattr(measure, "java_version", lambda: "openjdk 17")
    return had


def measured(*, rounds: int, crash: bool = False) -> Peers:
    testbed: Any = SimpleNamespace()
    ignore: Callable[[str], None] = cast(Any, lambda _: None)
    return measure_peers(
        testbed, THREE, messages=1, rounds=rounds, crash=crash, report=ignore, done=ignore
    )


def test_each_round_begins_with_another_after_the_broker_is_warm(turns: list[str]) -> None:
    measured(rounds=3)

    assert turns == [
        *["bare"],
        *["quix", "flink", "bare"],
        *["flink", "bare", "quix"],
        *["bare", "quix", "flink"],
    ]


def test_a_failure_costs_its_own_run_and_is_told(turns: list[str]) -> None:
    result = measured(rounds=2)

    assert turns
    assert {peer.name: len(peer.runs) for peer in result.peers} == {
        "quix": 2,
        "flink": 1,
        "bare": 2,
    }
    assert result.failures == ["round 2 of 2: Flink SQL 2.2.1: no slots"]


def test_those_that_remove_duplicates_are_killed_too(turns: list[str]) -> None:
    result = measured(rounds=1, crash=True)

    assert turns[-2:] == ["quix!", "flink!"]
    assert [peer.crash is not None for peer in result.peers] == [True, True, False]
