"""An operator killed between any two of its writes as it moves a worker leaves nothing its successor can't finish."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cluster.environment import Environment
from tests.e2e.support.faults import Before, pod_of
from tests.e2e.support.kubectl import Kubectl
from tests.e2e.support.nodes import nodes_of
from tests.e2e.support.operators import LocalOperator
from tests.e2e.support.stopping_operator import STOPPED
from tests.e2e.support.stream import ClusterStream
from tests.faults.seed import SEED
from tests.support.processes.processes import wait_for
from tests.support.traffic.traffic import retries

CreateStream = Callable[..., ClusterStream]

WRITES = 8  # more than there are up to the last deletion, which is asserted
FAILOVER = {"failover": {"nodeNotReadyAfter": "5s"}}
DELETED = "delete VolumeAttachment"
MESSAGES = 200
MOVED_SECONDS = 180.0


@dataclass(kw_only=True)
class Life:
    """A stream with an operator of its own, which is killed after so many writes; None: never."""

    stream: ClusterStream
    operator: LocalOperator
    log: Path
    writes: int | None
    before: Before | None = None
    done: str | None = None

    def start(self) -> None:
        """Start its operator, to be killed."""
        self.operator.stop()
        self.log.write_text("")
        self.operator.start(stop_after_writes=self.writes)

    def has_moved(self, node: str) -> bool:
        """Whether its worker is ready elsewhere; starts the operator again if it has stopped."""
        if self.operator.exit_code == STOPPED:
            self.done = self.log.read_text()
            self.operator.start()
        self.operator.assert_runs()
        [partition] = self.stream.status().partitions
        return partition.ready and partition.node_name not in {node, None}


@pytest.fixture
def lives(
    release: Environment,
    streams: CreateStream,
    kubectl: Kubectl,
    tmp_path: Path,
) -> Iterator[list[Life]]:
    """One for each number of writes, and one that is let alone, each in a namespace of its own."""
    with ExitStack() as stack:
        made = []
        for writes in (None, *range(1, WRITES + 1)):
            name = f"e2e-moved-{writes or 'undisturbed'}-{uuid4().hex[:6]}"
            kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            stack.callback(kubectl, "delete", "namespace", name, "--wait=false")
            stream = replace(streams(**FAILOVER), namespace=name, kubectl=kubectl.within(name))
            log = tmp_path / f"{name}.log"
            operator = LocalOperator(release, name, log)
            stack.enter_context(operator)
            made.append(Life(stream=stream, operator=operator, log=log, writes=writes))
        yield made


@pytest.mark.matrix  # tests/operator_simulation, and the kills of test_interruptions.py
@pytest.mark.alone
@pytest.mark.timeout(600)  # nine operators start on one machine
@pytest.mark.usefixtures("alone")
def test_an_operator_killed_after_any_write_of_a_failover_ends_where_an_undisturbed_one_does(
    lives: list[Life], release: Environment
) -> None:
    nodes = nodes_of(release)
    victim = nodes.names()[0]
    with nodes.closed_but(victim):
        for life in lives:
            life.operator.start()
            life.stream.apply()
        for life in lives:
            life.stream.wait_until_ready(deadline_seconds=MOVED_SECONDS)
    for life in lives:
        life.stream.send(retries(SEED, MESSAGES))
        life.stream.wait_until_passed()
        life.before = Before.of(life.stream)
        assert pod_of(life.stream, 0)["spec"]["nodeName"] == victim

    for life in lives:
        life.operator.stop()  # none may act before all are to be killed
    with nodes.killed(victim):
        for life in lives:
            life.start()
        moving = list(lives)

        def all_have_moved() -> bool:
            moving[:] = [life for life in moving if not life.has_moved(victim)]
            return not moving

        wait_for(
            all_have_moved,
            "all have moved",
            deadline_seconds=MOVED_SECONDS,
            poll_seconds=1.0,
            explain=lambda: str([(life.stream.namespace, life.stream.status()) for life in moving]),
        )
        killed = [life.done for life in lives if life.done is not None]
        assert DELETED not in killed[0]
        assert DELETED in killed[-1], "some were killed after all there is to do by force, too"
        for life in lives:
            assert_moved(life, victim)
    for life in lives:
        life.stream.judged()


def assert_moved(life: Life, node: str) -> None:
    """It is on the volume it had, and that it was moved by force is on record."""
    stream = life.stream
    assert life.before is not None
    life.before.assert_same_volumes()
    [partition] = stream.status().partitions
    assert partition.failover is not None, f"after {life.writes} writes"
    assert partition.failover.node == node
    attached = [
        one["spec"]["nodeName"]
        for one in stream.kubectl.items("volumeattachments")
        if one["spec"]["source"]["persistentVolumeName"] == life.before.identities[0].volume
    ]
    assert attached == [partition.node_name]
    stream.send(retries(SEED, MESSAGES))
