"""An operator that is killed between any two of its writes leaves nothing its successor can't finish."""

import difflib
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from dedupe_crds.status.stream import PartitionStatus, StreamStatus
from tests.cluster.environment import Environment
from tests.e2e.support.kubectl import Kubectl, Object
from tests.e2e.support.operators import LocalOperator
from tests.e2e.support.stopping_operator import STOPPED
from tests.e2e.support.stream import ClusterStream
from tests.support.layers import matrix

CreateStream = Callable[..., ClusterStream]

AT_ONCE = 6
MOST_WRITES = 60
KINDS = "serviceaccounts,configmaps,secrets,poddisruptionbudgets,persistentvolumeclaims,services,statefulsets"
CHANGE = {"storage": {"size": "160Mi"}, "worker": {"tuning": {"commitInterval": "50ms"}}}


class Life:
    """A stream from its creation through a change, under one operator that may be stopped once."""

    def __init__(
        self, cluster: Environment, stream: ClusterStream, kubectl: Kubectl, directory: Path
    ) -> None:
        name = f"{stream.namespace[:40]}-{uuid4().hex[:6]}"
        metadata = {"name": name}
        kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        self.namespace = name
        self.stream = replace(stream, namespace=name, kubectl=kubectl.within(name))
        self.operator = LocalOperator(cluster, name, directory / f"{name}.log")
        self.stopped = False
        self.writes = 0
        self._kubectl = kubectl

    def live(self, stop_after_writes: int | None) -> Object:
        """Return what there is in the end. Started again without a bound, once it has stopped."""
        try:
            with self.operator:
                self.operator.start(stop_after_writes=stop_after_writes)
                self.stream.apply()
                self._settle()
                self.stream.patch(**CHANGE)
                end = self._settle()
                if stop_after_writes is None:
                    self.writes = int(self.operator.writes())
                return self._state(end)
        finally:
            self._end()

    def _end(self) -> None:
        """Remove the namespace, with all that is in it."""
        self._kubectl("delete", "namespace", self.namespace, "--wait=false")

    def _settle(self) -> StreamStatus:
        """Wait until all is as the newest spec wants it, whoever has to be started again for it."""

        def settled() -> StreamStatus | None:
            if self.operator.exit_code == STOPPED:
                self.stopped = True
                self.operator.start()
            self.operator.assert_runs()
            return self.stream.well()

        return self.stream.wait_until(settled, "it is ready and up to date", deadline_seconds=150)

    def _state(self, status: StreamStatus) -> Object:
        """All that belongs to the stream, without what differs from one life to another."""
        return {
            "children": sorted(map(_essence, self.stream.children(KINDS)), key=str),
            "partitions": [
                (one.partition, _serial(one), one.restore and one.restore.source)
                for one in status.partitions
            ],
            "conditions": [(one.type, one.status, one.reason) for one in status.conditions],
        }


def _serial(partition: PartitionStatus) -> str:
    return (partition.persistent_volume_claim or "").rpartition("-")[2]


def _essence(item: Object) -> Object:
    """What the operator wants of an object, in a form that is the same for each life."""
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
    # What is random in a life: its names, its volumes, its token and what is hashed of them.
    text = json.dumps(applied, sort_keys=True)
    text = re.sub(r"pvc-[0-9a-f-]{36}", "VOLUME", text)
    text = re.sub(r"(raw|clean)-[0-9a-f]{8}", r"\1", text)
    text = re.sub(r"-worker-[0-9a-f]{10}\b", "-worker-HASH", text)
    return {**json.loads(re.sub(r'"[0-9a-f]{16}(-[0-9a-f]{16})?"', '"HASH"', text))}


def some(writes: int) -> list[int]:
    """The first and the last, and two between them: in the first rollout, and in that of the change."""
    return [1, writes // 3, 2 * writes // 3, writes]


def each(writes: int) -> list[int]:
    return list(range(1, writes + 1))


@pytest.mark.alone
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("chosen", [some, matrix(each)])
def test_an_operator_killed_after_any_of_its_writes_ends_where_an_undisturbed_one_does(
    release: Environment,
    streams: CreateStream,
    kubectl: Kubectl,
    tmp_path: Path,
    chosen: Callable[[int], list[int]],
) -> None:
    def life() -> Life:
        return Life(release, streams(), kubectl, tmp_path)

    undisturbed = life()
    expected = undisturbed.live(None)
    assert 15 < undisturbed.writes < MOST_WRITES
    # The topics are made one after another, by one client.
    lives = {number: life() for number in chosen(undisturbed.writes)}
    with ThreadPoolExecutor(AT_ONCE) as side_by_side:
        ends = side_by_side.map(lambda number: lives[number].live(number), lives)
        differing = {
            number: difference
            for number, end in zip(lives, ends, strict=True)
            if (difference := _difference(expected, end))
        }
    assert not differing
    assert any(one.stopped for one in lives.values())


def _difference(expected: Object, found: Object) -> list[str]:
    """What is in one end state only, line by line."""
    before, after = (
        json.dumps(each, indent=1, sort_keys=True).splitlines() for each in (expected, found)
    )
    lines = difflib.unified_diff(before, after, "undisturbed", "killed", lineterm="", n=2)
    return list(lines)
