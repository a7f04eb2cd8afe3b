"""An operator that is killed between any two acts of a snapshot and a restore, and one that was away for a while."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from uuid import uuid4

import pytest

from dedupe_crds.status.snapshot import SnapshotPhase
from dedupe_crds.status.stream import RestoreSource, StreamStatus
from tests.cluster.environment import Environment
from tests.e2e.support.copied import PROVIDERS, copied_stream
from tests.e2e.support.kubectl import Kubectl, Object
from tests.e2e.support.operators import LocalOperator, chart_at_rest
from tests.e2e.support.restores import restore_of
from tests.e2e.support.s3_server import S3Server
from tests.e2e.support.scene import scene
from tests.e2e.support.snapshots import VOLUME_SNAPSHOTS, Snapshots
from tests.e2e.support.stopping_operator import STOPPED
from tests.e2e.support.stream import KIND, ClusterStream
from tests.e2e.support.volumes import CLAIMS, claim_of, lose_volume
from tests.faults.seed import SEED
from tests.support.layers import matrix
from tests.support.traffic.traffic import order

LANES = 2  # for each provider, side by side
EACH, EVERY_EIGHTH = 1, 8
FEWEST_ACTS, MOST_ACTS = 8, 60
PER_ROUND = 40
ROUND_SECONDS = 150.0
SOURCES = {"CSI": RestoreSource.SNAPSHOT, "S3": RestoreSource.CHECKPOINT}


@dataclass
class Numbers:
    """After how many acts an operator is to be killed: 1, 1 + step and so on, until it does not come so far."""

    step: int
    _next: int = 1
    _is_over: bool = False
    _lock: Lock = field(default_factory=Lock)

    def take(self) -> int | None:
        with self._lock:
            if self._is_over:
                return None
            assert self._next <= MOST_ACTS, "it never comes to an end"
            self._next += self.step
            return self._next - self.step

    def end(self) -> None:
        with self._lock:
            self._is_over = True


class Lane:
    """A stream that is copied, and loses its volume, again and again; each time its operator is killed once."""

    def __init__(
        self, cluster: Environment, stream: ClusterStream, provider: str, log: Path
    ) -> None:
        self.provider = provider
        self.stream = stream
        self._snapshots = Snapshots(stream)
        self._operator = LocalOperator(cluster, stream.namespace, log)
        self._sent = 0

    def run(self, numbers: Numbers) -> dict[int, tuple[Object, bool]]:
        """Where each round ends and whether its operator was killed, by the number of acts that it had."""
        ends = {}
        while (number := numbers.take()) is not None:
            ends[number] = self._round(number)
            if not ends[number][1]:
                numbers.end()
        return ends

    def _round(self, number: int) -> tuple[Object, bool]:
        self.stream.send(order(SEED, one) for one in range(self._sent, self._sent + PER_ROUND))
        self._sent += PER_ROUND
        self.stream.wait_until_passed()
        name = f"{self.stream.name}-{number}-{uuid4().hex[:4]}"
        before = claim_of(self.stream, 0)
        killed = False

        def going_on() -> None:
            nonlocal killed
            if self._operator.exit_code == STOPPED:
                killed = True
                self._operator.start()
            self._operator.assert_runs()

        def is_copied() -> bool:
            going_on()
            return self._snapshots.status(name).phase.is_final

        def is_restored() -> StreamStatus | None:
            going_on()
            status = self.stream.well()  # asked once: lanes are many
            if status is None or status.partitions[0].persistent_volume_claim == before:
                return None
            return status

        with self._operator:
            self._operator.start(stop_after_writes=number)
            self._snapshots.ask(name)
            self.stream.wait_until(is_copied, f"{name} is made", deadline_seconds=ROUND_SECONDS)
            lose_volume(self.stream, 0)
            end = self.stream.wait_until(is_restored, "it is back", deadline_seconds=ROUND_SECONDS)
        return self._end(name, before, end), killed

    def _end(self, name: str, before: str, end: StreamStatus) -> Object:
        """What there is in the end, without what differs from round to round."""
        status, restore = self._snapshots.status(name), restore_of(self.stream, 0)
        copies = [one["metadata"]["name"] for one in self.stream.children(VOLUME_SNAPSHOTS)]
        claims = [one["metadata"]["name"] for one in self.stream.children(CLAIMS)]
        serials = [int(claim.rpartition("-")[2]) for claim in (before, claim_of(self.stream, 0))]
        return {
            "snapshot": (status.phase, status.reason, status.progress),
            "copies": [(one.phase, one.error, one.completed is None) for one in status.partitions],
            "volume snapshots": copies.count(f"{name}-0"),
            "restore": (restore.source, restore.name == name, restore.refused),
            "serial": serials[1] - serials[0],
            "claims": claims == [claim_of(self.stream, 0)],
            "start": self.stream.starts(),
            "conditions": [(one.type, one.status, one.reason) for one in end.conditions],
        }  # fmt: skip


@pytest.fixture(scope="module")
def lanes(
    release: Environment,
    bucket: S3Server,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[list[Lane]]:
    """LANES streams for each provider, each in a namespace of its own."""
    directory = tmp_path_factory.mktemp("lanes")
    failed_before = request.session.testsfailed
    with ExitStack() as scenes:
        made: list[Lane] = []
        for provider in PROVIDERS * LANES:
            title = f"killed-{len(made)}"
            place = scenes.enter_context(scene(release, title, directory, request))
            kept = bucket if provider == "S3" else None
            stream = copied_stream(place, "orders", bucket=kept)
            stream.apply()
            made.append(Lane(release, stream, provider, directory / f"{title}.log"))
        for lane in made:
            lane.stream.wait_until_ready()
        yield made
        if request.session.testsfailed == failed_before:  # else what is left is looked at first
            for lane in made:  # they end side by side
                lane.stream.kubectl("delete", KIND, "--all", "--wait=false")


@dataclass
class Absence:
    """The time without the chart's operator, and the stream with a schedule that it left alone."""

    stream: ClusterStream
    began: datetime
    _stack: ExitStack

    def end(self) -> datetime:
        """Have the operator back; returns when that was begun."""
        now = datetime.now(UTC)
        self._stack.close()
        return now


@pytest.fixture(scope="module")
def absence(
    release: Environment,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Absence]:
    directory = tmp_path_factory.mktemp("absence")
    with scene(release, "absence", directory, request) as place:
        stream = copied_stream(place, "orders", snapshots={"schedule": "* * * * *"})
        stream.apply()
        stream.wait_until_ready()
        stream.send(order(SEED, number) for number in range(PER_ROUND))
        snapshots = Snapshots(stream)
        stream.wait_until(snapshots.names, "one is made", deadline_seconds=90)
        snapshots.wait(snapshots.names()[0], SnapshotPhase.COMPLETED)
        with ExitStack() as stack:
            stack.enter_context(chart_at_rest(Kubectl(release)))
            yield Absence(stream, datetime.now(UTC), stack)


@pytest.mark.alone
@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("step", [EVERY_EIGHTH, matrix(EACH)])
def test_an_operator_killed_after_any_act_of_a_snapshot_and_a_restore_ends_where_another_does(
    lanes: list[Lane], step: int
) -> None:
    numbers = {provider: Numbers(step) for provider in PROVIDERS}
    with ThreadPoolExecutor(len(lanes)) as side_by_side:
        ran = list(side_by_side.map(lambda lane: lane.run(numbers[lane.provider]), lanes))

    for provider in PROVIDERS:
        ends = {
            number: end
            for lane, found in zip(lanes, ran, strict=True)
            for number, end in found.items()
            if lane.provider == provider
        }
        killed = [number for number, (_, was_killed) in ends.items() if was_killed]
        print(f"{provider}: killed after each of {len(killed)} acts")
        assert len(killed) > FEWEST_ACTS // step
        undisturbed = next(end for end, was_killed in ends.values() if not was_killed)
        assert undisturbed["restore"] == (SOURCES[provider], True, [])
        assert {number: end for number, (end, _) in ends.items() if end != undisturbed} == {}
    for lane in lanes:
        lane.stream.send(order(SEED, number, attempt=1) for number in range(PER_ROUND * 2))
        lane.stream.judged()


@pytest.mark.alone
@pytest.mark.matrix
def test_after_an_absence_one_snapshot_is_made_and_not_each_that_was_missed(
    absence: Absence,
) -> None:
    stream, snapshots = absence.stream, Snapshots(absence.stream)
    stream.wait_until(
        lambda: datetime.now(UTC) > absence.began + timedelta(minutes=2, seconds=10),
        "two were missed",
        deadline_seconds=140,
    )
    before = set(snapshots.names())
    back = absence.end()
    stream.wait_until(lambda: set(snapshots.names()) - before, "one is made", deadline_seconds=60)

    made, *_ = sorted(set(snapshots.names()) - before)  # a minute may be over meanwhile
    due = datetime.strptime(made, f"{stream.name}-%Y%m%d-%H%M").replace(tzinfo=UTC)
    assert due >= back.replace(second=0, microsecond=0)
    snapshots.wait(made, SnapshotPhase.COMPLETED)
    dues = [one for one in snapshots.names() if is_between(stream, one, absence.began, due)]
    assert dues == []


def is_between(stream: ClusterStream, name: str, began: datetime, due: datetime) -> bool:
    """Whether a snapshot is of a time of the schedule within an absence."""
    of = datetime.strptime(name, f"{stream.name}-%Y%m%d-%H%M").replace(tzinfo=UTC)
    return began < of < due
