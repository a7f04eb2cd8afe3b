"""A stream on a cluster: applied, changed, watched and judged."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import yaml

from dedupe_crds.spec.stream import GROUP
from dedupe_crds.status.stream import Condition, ConditionStatus, PartitionPhase, StreamStatus
from dedupe_crds.status.worker import WorkerStatus
from tests.cluster import environment
from tests.cluster.chart import operator_diagnostics
from tests.e2e.support.kubectl import Kubectl, KubectlFailed, Object
from tests.support.checker.checker import Verdict
from tests.support.crashes import aftermath
from tests.support.patience import LONGEST_SECONDS, wait_for
from tests.support.traffic.streams import TestStream

READY_SECONDS = LONGEST_SECONDS
"""How long a stream may take until all its partitions are ready."""

KIND = f"dedupestreams.{GROUP}"

_WELL = {
    "Ready": "True",
    "Progressing": "False",
    "Reconciling": "False",
    "Degraded": "False",
    "WindowHealthy": "True",
    "InputPartitionsAdded": "False",
    "Growing": "False",
    "SnapshotsHealthy": "True",
    "ReconciliationPaused": "False",
}
# Tests send records without ids, and to partitions of their choice.
_OF_RECORDS = {"GuaranteesMet", "InputPartitioning"}
_POLL_SECONDS = 0.5  # each some reads from the API server

Held = TypeVar("Held")


@dataclass(frozen=True, kw_only=True)
class ClusterStream(TestStream):
    """A stream in a namespace; its topics are reached from this machine."""

    kubectl: Kubectl
    partitions: int

    # -- changing it -------------------------------------------------------------------------------

    def apply(self, **spec: object) -> None:
        """Apply the manifest, whole fields of its spec replaced. Raises KubectlFailed."""
        document = self.document()
        document["spec"] |= spec
        self.kubectl.apply(document)

    def document(self) -> Object:
        """The manifest as its user wrote it."""
        document: Object = yaml.safe_load(self.manifest.read_text())
        return document

    def patch(self, **spec: object) -> None:
        """Merge changes into its spec: `patch(suspend=True)`. Raises KubectlFailed."""
        self.kubectl.patch(KIND, self.name, {"spec": spec})

    def annotate(self, name: str, value: str | None) -> None:
        """Set one of our annotations, such as pause-reconciliation, or with None remove it."""
        annotations = {f"{GROUP}/{name}": value}
        self.kubectl.patch(KIND, self.name, {"metadata": {"annotations": annotations}})

    def delete(self) -> None:
        """Delete it, and wait until it is gone."""
        self.kubectl.remove(KIND, self.name)

    # -- what the operator says --------------------------------------------------------------------

    def get(self) -> Object:
        """The object as it is now. Raises KubectlFailed."""
        return self.kubectl.get(KIND, self.name)

    def status(self) -> StreamStatus:
        """Its status; an empty one if the operator has not written any."""
        return StreamStatus.model_validate(self.get().get("status", {}))

    def well(self) -> StreamStatus | None:
        """Its status if it is of the newest generation, and there is nothing to warn of or to come.

        Partitions are asked, too: a choice of another volume is on record before the conditions that follow from it.
        """
        found = self.get()
        status = StreamStatus.model_validate(found.get("status", {}))
        current = status.observed_generation == found["metadata"]["generation"]
        good = all(
            one.status.value == _WELL[one.type]
            for one in status.conditions
            if one.type not in _OF_RECORDS
        )
        ready = all(one.ready for one in status.partitions)
        return status if current and good and ready else None

    def condition(self, name: str) -> Condition | None:
        """One of its conditions, if it judges the newest generation."""
        found = self.get()
        status = StreamStatus.model_validate(found.get("status", {}))
        for condition in status.conditions:
            if condition.type == name:
                current = condition.observed_generation == found["metadata"]["generation"]
                return condition if current else None
        return None

    def events(self) -> list[Object]:
        """Events about it, in no order."""
        return [
            event
            for event in self.kubectl.items("events")
            if event["involvedObject"]["name"] == self.name
            and event["involvedObject"]["kind"] == "DedupeStream"
        ]

    def wait_for_events(
        self, *reasons: str, deadline_seconds: float = READY_SECONDS
    ) -> dict[str, str]:
        """Wait until there are events with these reasons, which come after the status that they are about.

        Returns a message of each reason that there is.
        """

        def messages() -> dict[str, str] | None:
            found = {one["reason"]: one["message"] for one in self.events()}
            return found if found.keys() >= set(reasons) else None

        what = f"there is an event {', '.join(reasons)}"
        return self.wait_until(messages, what, deadline_seconds=deadline_seconds)

    # -- its objects -------------------------------------------------------------------------------

    @property
    def selector(self) -> str:
        """Selects all that belongs to it."""
        return f"{GROUP}/stream={self.name}"

    def children(self, kind: str, partition: int | None = None) -> list[Object]:
        """The objects of a kind that belong to it, or to one of its partitions."""
        of_partition = "" if partition is None else f",{GROUP}/partition={partition}"
        return self.kubectl.items(kind, self.selector + of_partition)

    def uids(self, kinds: str) -> dict[str, str]:
        """The UIDs of its objects of some kinds by kind/name, without those that are on their way out."""
        return {
            f"{found['kind']}/{found['metadata']['name']}": found["metadata"]["uid"]
            for found in self.children(kinds)
            if not found["metadata"].get("deletionTimestamp")
        }

    def pod_name(self, partition: int) -> str:
        """The name of a worker's pod."""
        return f"{self.name}-{partition}-0"

    def worker_status(self, partition: int) -> WorkerStatus:
        """GET /status of a worker, through the API server, once it answers: its pod may be a new one."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{self.pod_name(partition)}:8080"

        def answer() -> str | None:
            with suppress(KubectlFailed):
                return self.kubectl.raw(f"{path}/proxy/status")
            return None

        said = self.wait_until(answer, f"the worker of partition {partition} answers")
        assert said is not None
        return WorkerStatus.model_validate_json(said)

    def duplicates(self) -> int:
        """How many duplicates its workers have found since they started."""
        statuses = map(self.worker_status, range(self.partitions))
        return sum(status.counts.duplicates for status in statuses)

    def starts(self) -> list[str]:
        """How each worker came to know, at its start, what its store holds: `Tail` is from the store."""
        return [self._start(partition) for partition in range(self.partitions)]

    def _start(self, partition: int) -> str:
        return self.wait_until(
            lambda: self.worker_status(partition).reconcile, f"partition {partition} is reconciled"
        ).reason

    # -- waiting for it ----------------------------------------------------------------------------

    def wait_for_condition(
        self,
        name: str,
        status: ConditionStatus = ConditionStatus.TRUE,
        *,
        reason: str | None = None,
        deadline_seconds: float = READY_SECONDS,
    ) -> Condition:
        """Wait until a condition of the newest generation has a status, and a reason if given."""

        def holds() -> Condition | None:
            found = self.condition(name)
            if found is None or found.status is not status or reason not in (None, found.reason):
                return None
            return found

        what = f"{name} is {status}{f' because of {reason}' if reason else ''}"
        return self.wait_until(holds, what, deadline_seconds=deadline_seconds)

    def wait_until_ready(self, *, deadline_seconds: float = READY_SECONDS) -> None:
        """Wait until all its partitions are ready, as the operator says."""
        self.wait_for_condition("Ready", deadline_seconds=deadline_seconds)

    def wait_until_rolled_out(self, *, deadline_seconds: float = READY_SECONDS) -> None:
        """Wait until every worker is as the newest spec wants it, and ready."""
        self.wait_for_condition(
            "Progressing",
            ConditionStatus.FALSE,
            reason="UpToDate",
            deadline_seconds=deadline_seconds,
        )
        self.wait_until_ready(deadline_seconds=deadline_seconds)

    def wait_for_phase(
        self, phase: PartitionPhase, *, deadline_seconds: float = READY_SECONDS
    ) -> None:
        """Wait until all its partitions are in a phase."""

        def holds() -> bool:
            phases = [partition.phase for partition in self.status().partitions]
            return len(phases) == self.partitions and set(phases) == {phase}

        self.wait_until(holds, f"all partitions are {phase}", deadline_seconds=deadline_seconds)

    def wait_until_passed(self, *, deadline_seconds: float = LONGEST_SECONDS) -> None:
        """Wait until all that the input holds now is committed."""
        ends = self.ends()

        def passed() -> bool:
            committed = self.progress()
            return all(committed.get(partition, 0) >= end for partition, end in ends.items())

        self.wait_until(passed, f"{ends} is committed", deadline_seconds=deadline_seconds)
        self.settle()

    def wait_until(
        self,
        condition: Callable[[], Held | None],
        what: str,
        *,
        deadline_seconds: float = READY_SECONDS,
    ) -> Held:
        """Ask until a condition holds. Raises AssertionError, with the stream's own word, if late."""
        return wait_for(
            condition,
            f"{self.namespace}/{self.name}: {what}",
            deadline_seconds=deadline_seconds,
            poll_seconds=_POLL_SECONDS,
            explain=self._explain,
        )

    # -- judging it --------------------------------------------------------------------------------

    def judged(self) -> Verdict:
        """Wait until all is through, and assert that it is all there, once."""
        self.wait_until_passed()
        return aftermath.judged(self)

    def _explain(self) -> str:
        """Return what a stream that is late is judged by, the short parts first: long reports are cut."""
        try:
            pods = self.kubectl("get", "pods", "-o", "wide")
            warnings = self.kubectl("get", "events", "--field-selector", "type=Warning")
            status: Any = self.get().get("status") or {}
        except KubectlFailed as error:
            return str(error)
        fields = "\n".join(f"{name}: {json.dumps(status[name])}" for name in sorted(status))
        operator = operator_diagnostics(environment.current())
        return f"{pods}\n{warnings}\n{fields}\n{operator}"
