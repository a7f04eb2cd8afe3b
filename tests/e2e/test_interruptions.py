"""An operator that is killed between any two of its acts leaves nothing that the next one can't finish.

A course is what it does: the table below has one row for each. In each round of a course it is killed after another
number of acts, and started again; the round in which it does not come so far is the undisturbed one.
"""

import difflib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

import pytest

from dedupe_crds.status.snapshot import SnapshotPhase
from dedupe_crds.status.stream import PartitionStatus, RestoreSource, StreamStatus
from tests.cluster.environment import Environment
from tests.e2e.support.copied import copied_stream
from tests.e2e.support.faults import Before, pod_of
from tests.e2e.support.kubectl import Kubectl, Object
from tests.e2e.support.namespaces import make_namespace
from tests.e2e.support.nodes import nodes_of
from tests.e2e.support.operators import LocalOperator, chart_at_rest
from tests.e2e.support.restores import restore_of
from tests.e2e.support.s3_server import S3Server
from tests.e2e.support.scene import Scene, scene
from tests.e2e.support.snapshots import VOLUME_SNAPSHOTS, Snapshots
from tests.e2e.support.stopping_operator import STOPPED
from tests.e2e.support.stream import KIND, ClusterStream
from tests.e2e.support.volumes import CLAIMS, claim_of, lose_volume
from tests.faults.seed import SEED
from tests.support.layers import matrix
from tests.support.patience import pace, wait_for
from tests.support.traffic.traffic import order, retries

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("chart_rests")]

EACH, EVERY_EIGHTH = 1, 8
MOST_ACTS = 60
LANES = 3  # side by side
PER_ROUND = 40
CHILDREN = "serviceaccounts,configmaps,secrets,poddisruptionbudgets,persistentvolumeclaims,services,statefulsets"
CHANGE = {"storage": {"size": "160Mi"}, "worker": {"tuning": {"commitInterval": "50ms"}}}


NewPlace = Callable[[str], Scene]


@pytest.fixture(scope="module")
def new_place(
    release: Environment,
    bucket: S3Server,  # noqa: ARG001 # it must be there to the end
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[NewPlace]:
    """Make scenes. They are removed in the end, when the chart's operator is back: it removes copies in the bucket."""
    with ExitStack() as stack:
        yield lambda title: stack.enter_context(
            scene(release, title, tmp_path_factory.mktemp(title), request)
        )


@pytest.fixture(scope="module")
def chart_rests(release: Environment, new_place: NewPlace) -> Iterator[None]:  # noqa: ARG001 # removed later
    """The operators of these tests are processes of this machine."""
    with chart_at_rest(Kubectl(release)):
        yield


class Round(NamedTuple):
    """What there is in the end, without what differs from round to round; and whether the operator was killed."""

    end: Object
    killed: bool


class Numbers:
    """After how many acts an operator is to be killed: 1, 1 + step and so on, until it does not come so far."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._next = 1
        self._is_over = False
        self._lock = Lock()

    def take(self) -> int | None:
        with self._lock:
            if self._is_over:
                return None
            assert self._next <= MOST_ACTS, "it never comes to an end"
            self._next += self._step
            return self._next - self._step

    def end(self) -> None:
        with self._lock:
            self._is_over = True


class Course(ABC):
    """Rounds one after another, in a scene of their own."""

    def __init__(self, place: Scene, kept_in: S3Server) -> None:
        self.place = place
        self.bucket = kept_in

    @abstractmethod
    def round(self, number: int) -> Round:
        """Have an operator do it, which is killed once it has acted so often."""

    @abstractmethod
    def judge(self) -> None:
        """Judge the messages of all rounds."""

    def run(self, numbers: Numbers) -> dict[int, Round]:
        """Go on until an operator was not killed."""
        rounds = {}
        while (number := numbers.take()) is not None:
            rounds[number] = self.round(number)
            if not rounds[number].killed:
                numbers.end()
        return rounds

    def operator(self, namespace: str) -> LocalOperator:
        return LocalOperator(
            self.place.cluster, namespace, self.place.directory / f"{namespace}.log"
        )


class CreatedAndChanged(Course):
    """A new stream, and a change of its volumes and of its workers."""

    def round(self, number: int) -> Round:
        kubectl = Kubectl(self.place.cluster)
        name = make_namespace(kubectl, f"created-{number}")
        within = replace(self.place, namespace=name, kubectl=kubectl.within(name))
        stream = within.stream("orders")
        try:
            with self.operator(name) as operator:
                operator.start(stop_after_writes=number)
                stream.apply()
                settle(stream, operator)
                stream.patch(**CHANGE)
                end = settle(stream, operator)
                return Round(self._end(stream, end), operator.has_stopped)
        finally:
            kubectl("delete", "namespace", name, "--wait=false")

    def judge(self) -> None:
        """There are none."""

    def _end(self, stream: ClusterStream, status: StreamStatus) -> Object:
        return {
            "children": sorted(map(essence, stream.children(CHILDREN)), key=str),
            "partitions": [
                (one.partition, serial(one), one.restore and one.restore.source)
                for one in status.partitions
            ],
            "conditions": [(one.type, one.status, one.reason) for one in status.conditions],
        }


class CopiedAndRestored(Course):
    """A stream that is copied, and loses its volume."""

    source = RestoreSource.SNAPSHOT

    def __init__(self, place: Scene, kept_in: S3Server) -> None:
        super().__init__(place, kept_in)
        self._sent = 0
        self.stream = copied_stream(place, "orders", bucket=self.kept_in())
        self.stream.apply()
        with self.operator(place.namespace) as operator:
            operator.start()
            self.stream.wait_until_ready()  # not well: it has no snapshot

    def kept_in(self) -> S3Server | None:
        return None

    def round(self, number: int) -> Round:
        stream, snapshots = self.stream, Snapshots(self.stream)
        stream.send(order(SEED, one) for one in range(self._sent, self._sent + PER_ROUND))
        self._sent += PER_ROUND
        stream.wait_until_passed()
        name, before = f"{stream.name}-after-{number}", claim_of(stream, 0)
        with self.operator(stream.namespace) as operator:

            def is_copied() -> bool:
                operator.assert_runs()
                return snapshots.status(name).phase.is_final

            operator.start(stop_after_writes=number)
            snapshots.ask(name)
            stream.wait_until(is_copied, f"{name} is made")
            lose_volume(stream, 0)
            end = settle(stream, operator, other_than=before)
            return Round(self._end(name, before, end), operator.has_stopped)

    def judge(self) -> None:
        self.stream.send(order(SEED, number, attempt=1) for number in range(self._sent))
        self.stream.judged()

    def _end(self, name: str, before: str, end: StreamStatus) -> Object:
        status, restore = Snapshots(self.stream).status(name), restore_of(self.stream, 0)
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


class CopiedToABucket(CopiedAndRestored):
    """The same, but that a bucket has the copies."""

    source = RestoreSource.CHECKPOINT

    def kept_in(self) -> S3Server | None:
        return self.bucket


def settle(stream: ClusterStream, operator: LocalOperator, other_than: str = "") -> StreamStatus:
    """Wait until all is as the newest spec wants it, on another claim, whoever has to be started again for it."""

    def settled() -> StreamStatus | None:
        operator.assert_runs()
        status = stream.well()  # asked once: lanes are many
        if status is None or status.partitions[0].persistent_volume_claim == other_than:
            return None
        return status

    return stream.wait_until(settled, "it is ready and up to date")


def serial(partition: PartitionStatus) -> str:
    return (partition.persistent_volume_claim or "").rpartition("-")[2]


def essence(item: Object) -> Object:
    """What the operator wants of an object, in a form that is the same for each round."""
    metadata = item["metadata"]
    applied = {
        "kind": item["kind"],
        "name": metadata["name"],
        "labels": metadata["labels"],
        "owners": [owner["kind"] for owner in metadata.get("ownerReferences", [])],
        "managers": sorted(
            {entry["manager"] for entry in metadata["managedFields"] if "subresource" not in entry}
        ),
        "spec": item.get("spec"),
        "data": sorted(item.get("data", {})),
    }
    # What is random in a round: its names, its volumes, its token and what is hashed of them.
    text = json.dumps(applied, sort_keys=True)
    text = re.sub(r"pvc-[0-9a-f-]{36}", "VOLUME", text)
    text = re.sub(r"\borders-[0-9a-f]{6}\b", "orders", text)
    text = re.sub(r"-worker-[0-9a-f]{10}\b", "-worker-HASH", text)
    return {**json.loads(re.sub(r'"[0-9a-f]{16}(-[0-9a-f]{16})?"', '"HASH"', text))}


# Each with the fewest acts that it has.
COURSES: Final[list[tuple[type[Course], int]]] = [
    (CreatedAndChanged, 15),
    (CopiedAndRestored, 8),
    (CopiedToABucket, 8),
]


@pytest.mark.parametrize("step", [EVERY_EIGHTH, matrix(EACH)])
@pytest.mark.parametrize(
    ("course", "fewest"), COURSES, ids=lambda each: getattr(each, "__name__", "")
)
def test_an_operator_killed_after_any_act_ends_where_an_undisturbed_one_does(
    new_place: NewPlace, bucket: S3Server, course: type[Course], fewest: int, step: int
) -> None:
    places = [new_place(f"killed-{lane}") for lane in range(LANES)]
    with ThreadPoolExecutor(LANES) as side_by_side:
        lanes = list(side_by_side.map(lambda place: course(place, bucket), places))
        numbers = Numbers(step)
        rounds: dict[int, Round] = {}
        for found in side_by_side.map(lambda lane: lane.run(numbers), lanes):
            rounds |= found

    killed = [number for number, each in rounds.items() if each.killed]
    print(f"{course.__name__}: killed after each of {len(killed)} acts")
    assert len(killed) > fewest // step
    undisturbed = next(each.end for each in rounds.values() if not each.killed)
    differing = {
        number: difference
        for number, each in rounds.items()
        if (difference := lines_apart(undisturbed, each.end))
    }
    assert not differing
    if issubclass(course, CopiedAndRestored):
        assert undisturbed["restore"] == (course.source, True, [])
    for lane in lanes:
        lane.judge()
    for place in places:
        place.kubectl("delete", KIND, "--all", "--wait=false")


def lines_apart(expected: Object, found: Object) -> list[str]:
    """What is in one end state only, line by line."""
    before, after = (
        json.dumps(each, indent=1, sort_keys=True, default=str).splitlines()
        for each in (expected, found)
    )
    lines = difflib.unified_diff(before, after, "undisturbed", "killed", lineterm="", n=2)
    return list(lines)


MOVES = 8  # more acts than there are up to the last deletion, which is asserted
DELETED = "delete VolumeAttachment"
FAILOVER = {"nodeNotReadyAfter": "5s"}


@dataclass(kw_only=True)
class Moved:
    """A stream with an operator of its own, which is killed after so many acts of a failover; None: never."""

    stream: ClusterStream
    operator: LocalOperator
    log: Path
    acts: int | None
    before: Before | None = None
    done: str | None = None

    def start(self) -> None:
        """Start its operator, to be killed."""
        self.operator.stop()
        self.log.write_text("")
        self.operator.start(stop_after_writes=self.acts)

    def has_moved(self, node: str) -> bool:
        """Whether its worker is ready elsewhere; starts the operator again if it has stopped."""
        if self.done is None and self.operator.exit_code == STOPPED:
            self.done = self.log.read_text()
        self.operator.assert_runs()
        [partition] = self.stream.status().partitions
        return partition.ready and partition.node_name not in {node, None}


@pytest.fixture
def moved(release: Environment, new_place: NewPlace, tmp_path: Path) -> Iterator[list[Moved]]:
    """One for each number of acts, and one that is let alone, each in a namespace of its own."""
    with ExitStack() as stack:
        made = []
        for acts in (None, *range(1, MOVES + 1)):
            title = f"moved-{acts or 'undisturbed'}"
            place = new_place(title)
            log = tmp_path / f"{title}.log"
            operator = stack.enter_context(LocalOperator(release, place.namespace, log))
            stream = place.stream("orders", failover=FAILOVER)
            made.append(Moved(stream=stream, operator=operator, log=log, acts=acts))
        yield made


# Not a row of the table: one death of a node serves all.
@pytest.mark.matrix  # tests/operator_simulation, and the courses above
def test_an_operator_killed_after_any_act_of_a_failover_ends_where_an_undisturbed_one_does(
    moved: list[Moved], release: Environment
) -> None:
    nodes = nodes_of(release)
    victim = nodes.names()[0]
    with nodes.closed_but(victim):
        for each in moved:
            each.operator.start()
            each.stream.apply()
        for each in moved:
            each.stream.wait_until_ready()
    for each in moved:
        each.stream.send(retries(SEED, PER_ROUND))
        each.stream.wait_until_passed()
        each.before = Before.of(each.stream)
        assert pod_of(each.stream, 0)["spec"]["nodeName"] == victim

    for each in moved:
        each.operator.stop()  # none may act before all are to be killed
    with nodes.killed(victim):
        for each in moved:
            each.start()
        moving = list(moved)

        def all_have_moved() -> bool:
            moving[:] = [each for each in moving if not each.has_moved(victim)]
            return not moving

        wait_for(
            all_have_moved,
            "all have moved",
            poll_seconds=1.0,
            explain=lambda: str([(each.stream.namespace, each.stream.status()) for each in moving]),
        )
        killed = [each.done for each in moved if each.operator.has_stopped]
        assert DELETED not in (killed[0] or "")
        assert DELETED in (killed[-1] or ""), (
            "some were killed after all there is to do by force, too"
        )
        for each in moved:
            assert_moved(each, victim)
    for each in moved:
        each.stream.judged()


def assert_moved(each: Moved, node: str) -> None:
    """It is on the volume it had, and that it was moved by force is on record."""
    stream = each.stream
    assert each.before is not None
    each.before.assert_same_volumes()
    [partition] = stream.status().partitions
    assert partition.failover is not None, f"after {each.acts} acts"
    assert partition.failover.node == node
    attached = [
        one["spec"]["nodeName"]
        for one in stream.kubectl.items("volumeattachments")
        if one["spec"]["source"]["persistentVolumeName"] == each.before.identities[0].volume
    ]
    assert attached == [partition.node_name]
    stream.send(retries(SEED, PER_ROUND))


@pytest.mark.matrix
def test_after_an_absence_one_snapshot_is_made_and_not_each_that_was_missed(
    new_place: NewPlace,
) -> None:
    place = new_place("absence")
    stream = copied_stream(place, "orders", snapshots={"schedule": "* * * * *"})
    snapshots = Snapshots(stream)
    with LocalOperator(place.cluster, place.namespace, place.directory / "absent.log") as operator:
        operator.start()
        stream.apply()
        stream.wait_until_ready()
        stream.send(order(SEED, number) for number in range(PER_ROUND))
        stream.wait_until(snapshots.names, "one is made")
        snapshots.wait(snapshots.names()[0], SnapshotPhase.COMPLETED)
        operator.stop()
        began = datetime.now(UTC)
        pace(130)  # two are missed
        before, back = set(snapshots.names()), datetime.now(UTC)
        operator.start()
        stream.wait_until(lambda: set(snapshots.names()) - before, "one is made")

        made, *_ = sorted(set(snapshots.names()) - before)  # a minute may be over meanwhile
        due = due_of(stream, made)
        assert due >= back.replace(second=0, microsecond=0)
        snapshots.wait(made, SnapshotPhase.COMPLETED)
        assert [name for name in snapshots.names() if began < due_of(stream, name) < due] == []


def due_of(stream: ClusterStream, name: str) -> datetime:
    """The time of the schedule that a snapshot is of."""
    return datetime.strptime(name, f"{stream.name}-%Y%m%d-%H%M").replace(tzinfo=UTC)
