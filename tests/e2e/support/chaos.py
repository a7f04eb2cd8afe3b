"""Faults that chance picks, one after another, against streams under load."""

import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from dedupe_crds.annotations import (
    OUTPUT_TOPIC,
    RECONCILE,
    RESTORE,
    ReconcileRequest,
    RestoreRequest,
)
from dedupe_crds.spec.stream import GROUP
from dedupe_crds.status.snapshot import SnapshotPhase
from dedupe_crds.status.stream import Restore
from tests.cluster.chart import NAMESPACE
from tests.e2e.support.kubectl import Kubectl, KubectlFailed
from tests.e2e.support.nodes import Nodes
from tests.e2e.support.operator_pods import OperatorPods
from tests.e2e.support.snapshots import Snapshots, partition_status
from tests.e2e.support.stream import ClusterStream
from tests.e2e.support.volumes import has_volume, lose_volume
from tests.support.patience import pace

RECOVERED_SECONDS: Final = 300.0
_MOST_PAUSE_SECONDS: Final = 4.0
_FAILOVER_SHARE: Final = 0.7  # of dead nodes; the others are back before anybody noticed
_OPERATOR: Final = ("pod", "--selector", "app.kubernetes.io/component=operator")


class Chaos:
    """Does one thing after another to streams. `done` counts what, `slowest` has the longest time to all ready."""

    def __init__(
        self, streams: list[ClusterStream], kubectl: Kubectl, nodes: Nodes | None, seed: int
    ) -> None:
        self._streams = streams
        self._kubectl = kubectl
        self._nodes = nodes
        self._rng = random.Random(seed)
        self._started = time.monotonic()
        self._noted: dict[tuple[str, int], Restore] = {}
        self.done: Counter[str] = Counter()
        self.rungs: Counter[str] = Counter()
        self.slowest: dict[str, float] = {}

    def go_on(self, minutes: float) -> None:
        """Do each thing once, and go on for a while. Fails if a stream is not back in RECOVERED_SECONDS."""
        faults: list[Callable[[ClusterStream], None]] = [
            *[self._kill_a_worker] * 3,
            *[self._lose_a_volume] * 3,
            *[self._snapshot] * 3,
            *[self._restore_by_hand] * 2,
            *[self._reconcile] * 2,
            self._kill_the_operator,
            *([self._kill_a_node, self._cut_off_a_node] if self._nodes else []),
        ]
        first = list(dict.fromkeys(faults))
        self._rng.shuffle(first)
        while first or time.monotonic() - self._started < 60 * minutes:
            # What comes together is over before the next comes: what is proven is that all of it passes.
            together = (
                [first.pop()] if first else self._rng.sample(faults, self._rng.choice((1, 1, 2)))
            )
            for fault in together:
                stream = self._rng.choice(self._streams)
                name = fault.__name__.strip("_")
                self.done[name] += 1
                self._say(f"{name} {stream.name}")
                fault(stream)
            self._recover(" + ".join(fault.__name__.strip("_") for fault in together))
            pace(self._rng.random() * _MOST_PAUSE_SECONDS)

    # -- the faults --------------------------------------------------------------------------------

    def _kill_a_worker(self, stream: ClusterStream) -> None:
        pod = stream.pod_name(self._partition(stream))
        by_force = ["--grace-period=0", "--force"] if self._rng.random() < 0.7 else ["--wait=false"]
        stream.kubectl("delete", "pod", pod, "--ignore-not-found", *by_force)

    def _lose_a_volume(self, stream: ClusterStream) -> None:
        partition = self._partition(stream)
        stream.wait_until(lambda: has_volume(stream, partition), f"{partition} has a volume")
        lose_volume(stream, partition)

    def _snapshot(self, stream: ClusterStream) -> None:
        Snapshots(stream).ask(f"{stream.name}-{self.done['snapshot']}")

    def _restore_by_hand(self, stream: ClusterStream) -> None:
        """From a snapshot that there is, or from the output topic."""
        partition = self._partition(stream)
        completed = [
            made.name
            for made in Snapshots(stream).all()
            if made.status.phase is SnapshotPhase.COMPLETED
            and partition in {one.partition for one in made.status.partitions}
        ]
        request = RestoreRequest(
            request=f"chaos-{self.done['restore_by_hand']}",
            partition=partition,
            source=self._rng.choice([*completed, OUTPUT_TOPIC]),
        )
        stream.annotate(RESTORE.removeprefix(f"{GROUP}/"), request.model_dump_json(by_alias=True))
        stream.wait_until(lambda: _answered(stream, request), "the restore has begun")

    def _reconcile(self, stream: ClusterStream) -> None:
        request = ReconcileRequest(request=f"chaos-{self.done['reconcile']}", full=True)
        stream.annotate(RECONCILE.removeprefix(f"{GROUP}/"), request.model_dump_json(by_alias=True))

    def _kill_the_operator(self, _: ClusterStream) -> None:
        operator = self._kubectl.within(NAMESPACE)
        operator("delete", *_OPERATOR, "--grace-period=0", "--force")

    def _kill_a_node(self, stream: ClusterStream) -> None:
        assert self._nodes is not None
        node = self._node_of(stream)
        self._nodes.keep_operator_away_from(node)
        with self._nodes.killed(node):
            if self._rng.random() < _FAILOVER_SHARE:
                self._nodes.wait_until_not_ready(node)
                self._wait_for_ready(stream)

    def _cut_off_a_node(self, stream: ClusterStream) -> None:
        assert self._nodes is not None
        node = self._node_of(stream)
        self._nodes.keep_operator_away_from(node)
        with self._nodes.cut_off(node):
            self._nodes.wait_until_not_ready(node)
            self._wait_for_ready(stream)

    # -- what comes of them ------------------------------------------------------------------------

    def _recover(self, after: str) -> None:
        started = time.monotonic()
        for stream in self._streams:
            self._wait_for_ready(stream)
        seconds = time.monotonic() - started
        self._say(f"all ready again after {seconds:.0f} s")
        self.slowest[after] = max(seconds, self.slowest.get(after, 0.0))
        self._note_rungs()

    def _note_rungs(self) -> None:
        """Count where stores have come from since the last time."""
        for stream in self._streams:
            for one in stream.status().partitions:
                if one.restore and self._noted.get((stream.name, one.partition)) != one.restore:
                    self._noted[stream.name, one.partition] = one.restore
                    self.rungs[one.restore.source.value] += 1

    def _wait_for_ready(self, stream: ClusterStream) -> None:
        stream.wait_until(
            lambda: _all_ready(stream),
            "all its partitions are ready",
            deadline_seconds=RECOVERED_SECONDS,
        )

    def _partition(self, stream: ClusterStream) -> int:
        return self._rng.randrange(stream.partitions)

    def _node_of(self, stream: ClusterStream) -> str:
        OperatorPods(self._kubectl).wait_until_available()
        self._wait_for_ready(stream)
        return str(partition_status(stream, self._partition(stream)).node_name)

    def _say(self, what: str) -> None:
        print(f"{time.monotonic() - self._started:7.1f} s  {what}", flush=True)


def _answered(stream: ClusterStream, request: RestoreRequest) -> bool:
    restore = partition_status(stream, request.partition).restore
    return restore is not None and restore.request == request.request


def _all_ready(stream: ClusterStream) -> bool:
    """As the pods say, not an operator that may be gone: by their own count, and each on its recorded claim."""
    try:
        pods = stream.children("pods")
        claims = {one.persistent_volume_claim for one in stream.status().partitions}
    except KubectlFailed:
        return False
    ready = [
        volume["persistentVolumeClaim"]["claimName"]
        for pod in pods
        for volume in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
        and not pod["metadata"].get("deletionTimestamp")
        and any(one["ready"] for one in pod["status"].get("containerStatuses", []))
    ]
    return len(ready) == stream.partitions and set(ready) == claims
