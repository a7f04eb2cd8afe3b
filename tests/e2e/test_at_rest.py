"""What the operator costs the API server while there is nothing to do: next to nothing."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import pytest

from dedupe_crds.status.stream import ConditionStatus
from tests.cluster.environment import Environment
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.operators import LocalOperator, chart_at_rest
from tests.e2e.support.scene import Scene, scene
from tests.e2e.support.stream import ClusterStream
from tests.faults.seed import SEED
from tests.support.patience import pace
from tests.support.traffic.traffic import PacedProducer, retries

pytestmark = pytest.mark.alone

STREAMS = 3
PARTITIONS = 2
SECONDS = 45.0
MESSAGES_PER_SECOND = 100
OBJECTS = "dedupestreams,statefulsets,services,configmaps,persistentvolumeclaims"


@dataclass(frozen=True)
class Load:
    """What an operator asked of the API server in some `seconds`, SECONDS or more, and which objects changed."""

    seconds: float
    reads: float
    writes: float
    changed: set[str]


class Watched:
    """An operator of this machine with the streams of one namespace, which are all it has."""

    def __init__(self, place: Scene) -> None:
        log = place.directory / f"{place.namespace}.log"
        self.operator = LocalOperator(place.cluster, place.namespace, log)
        self.streams = [
            place.stream(f"s{number}", partitions=PARTITIONS) for number in range(STREAMS)
        ]
        self._kubectl = place.kubectl
        self._before: tuple[float, float, float, dict[str, str]] | None = None

    def start(self) -> None:
        """Start the operator, and give it its streams."""
        self.operator.start()
        for stream in self.streams:
            stream.apply()

    def begin(self) -> None:
        """Count from now on."""
        began = time.monotonic()
        self._before = began, self.operator.reads(), self.operator.writes(), self._versions()

    def end(self) -> Load:
        """What was counted."""
        assert self._before is not None
        began, reads, writes, versions = self._before
        after = self._versions()
        return Load(
            seconds=time.monotonic() - began,
            reads=self.operator.reads() - reads,
            writes=self.operator.writes() - writes,
            changed={name for name in after if after[name] != versions.get(name)},
        )

    def _versions(self) -> dict[str, str]:
        """The version of each object: a write by anybody gives it another one."""
        return {
            f"{item['kind']} {item['metadata']['name']}": item["metadata"]["resourceVersion"]
            for item in self._kubectl.items(OBJECTS)
        }


@contextmanager
def watched(
    release: Environment, title: str, directory: Path, request: pytest.FixtureRequest
) -> Iterator[Watched]:
    """Have an operator with streams, and the chart's operator at rest."""
    with (
        scene(release, title, directory, request) as place,
        chart_at_rest(Kubectl(release)),
        (one := Watched(place)).operator,
    ):
        one.start()
        for stream in one.streams:
            settle(stream)
        yield one


def settle(stream: ClusterStream) -> None:
    """Wait until nothing is left to do, and the first figures are told."""
    stream.wait_until_ready()
    stream.wait_for_condition("Progressing", ConditionStatus.FALSE, reason="UpToDate")
    stream.wait_until(
        lambda: all(one.lag_messages is not None for one in stream.status().partitions),
        "the lag of each partition is told",
    )


def light_traffic(stream: ClusterStream) -> PacedProducer:
    messages = list(retries(SEED, int(4 * SECONDS * MESSAGES_PER_SECOND), partitions=PARTITIONS))
    return PacedProducer(
        stream.bootstrap_servers,
        stream.input_topic,
        messages,
        messages_per_second=MESSAGES_PER_SECOND,
    )


@pytest.mark.matrix  # tests/unit/operator/controller/test_reconciler.py
def test_streams_at_rest_cause_no_write_and_less_than_a_read_a_second_each(
    release: Environment, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with watched(release, "quiet", tmp_path, request) as quiet:
        quiet.begin()
        pace(SECONDS)  # the time that is measured
        load = quiet.end()
    assert load.writes == 0
    assert load.changed == set()
    assert 0 < load.reads < STREAMS * load.seconds


@pytest.mark.matrix
def test_streams_at_work_cause_at_most_a_write_of_figures_a_minute_each(
    release: Environment, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with watched(release, "busy", tmp_path, request) as busy, ExitStack() as traffic:
        for stream in busy.streams:
            traffic.enter_context(light_traffic(stream))
        busy.begin()
        pace(SECONDS)  # the time that is measured
        for stream in busy.streams:
            assert stream.worker_status(0).counts.duplicates > 0, "its figures did not move"
        load = busy.end()
    assert load.writes <= STREAMS * ceil(load.seconds / 60)
    assert all(name.startswith("DedupeStream ") for name in load.changed)
    assert 0 < load.reads < STREAMS * load.seconds
