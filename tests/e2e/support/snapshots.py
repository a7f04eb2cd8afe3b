"""DedupeSnapshots of a stream: made, watched and deleted as its user would."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dedupe_crds.spec.stream import API_VERSION, GROUP
from dedupe_crds.status.snapshot import KIND as SNAPSHOT_KIND
from dedupe_crds.status.snapshot import SnapshotPhase, SnapshotStatus
from dedupe_crds.status.stream import PartitionStatus
from tests.e2e.support.kubectl import Object
from tests.e2e.support.stream import ClusterStream
from tests.e2e.support.volumes import claim_of
from tests.support.patience import LONGEST_SECONDS

SNAPSHOTS: Final = f"dedupesnapshots.{GROUP}"
VOLUME_SNAPSHOTS: Final = "volumesnapshots.snapshot.storage.k8s.io"


@dataclass(frozen=True, slots=True)
class Made:
    """One DedupeSnapshot as it is now."""

    name: str
    created: datetime
    status: SnapshotStatus


class Snapshots:
    """Those of one stream."""

    def __init__(self, stream: ClusterStream) -> None:
        self._stream = stream
        self._kubectl = stream.kubectl

    def ask(self, name: str, **spec: Any) -> None:  # noqa: ANN401 # any field of a spec
        """Ask for one; fields of the spec are set beside its stream's name."""
        wanted = {"streamRef": {"name": self._stream.name}, **spec}
        self._kubectl.apply(
            {
                "apiVersion": API_VERSION,
                "kind": SNAPSHOT_KIND,
                "metadata": {"name": name},
                "spec": wanted,
            }
        )

    def make(self, name: str, **spec: Any) -> SnapshotStatus:  # noqa: ANN401 # as above
        """Ask for one and wait until it is complete; returns what is said of it."""
        self.ask(name, **spec)
        return self.wait(name, SnapshotPhase.COMPLETED)

    def wait(
        self, name: str, phase: SnapshotPhase, *, deadline_seconds: float = LONGEST_SECONDS
    ) -> SnapshotStatus:
        """Wait until one is in a phase. Fails at once if it has ended in another."""

        def reached() -> SnapshotStatus | None:
            found = self.status(name)
            assert found.phase is phase or not found.phase.is_final, (
                f"{name} is {found.phase}: {found.reason}: {found.message}"
            )
            return found if found.phase is phase else None

        what = f"snapshot {name} is {phase}"
        return self._stream.wait_until(reached, what, deadline_seconds=deadline_seconds)

    def status(self, name: str) -> SnapshotStatus:
        """What is said of one; an empty status if nothing is yet. Raises KubectlFailed."""
        found = self._kubectl.get(SNAPSHOTS, name)
        return SnapshotStatus.model_validate(found.get("status") or {})

    def all(self) -> list[Made]:
        """All of them, the oldest first."""
        found = [_made(one) for one in self._kubectl.items(SNAPSHOTS) if self._is_ours(one)]
        return sorted(found, key=lambda made: (made.created, made.name))

    def names(self) -> list[str]:
        """Their names, the oldest first."""
        return [made.name for made in self.all()]

    def delete(self, name: str) -> None:
        """Delete one, and wait until it is gone."""
        self._kubectl.remove(SNAPSHOTS, name)

    def _is_ours(self, found: Object) -> bool:
        name: str = found["spec"]["streamRef"]["name"]
        return name == self._stream.name


def _made(found: Object) -> Made:
    metadata = found["metadata"]
    return Made(
        metadata["name"],
        datetime.fromisoformat(metadata["creationTimestamp"]),
        SnapshotStatus.model_validate(found.get("status") or {}),
    )


def partition_status(stream: ClusterStream, partition: int) -> PartitionStatus:
    """What the operator says of a partition."""
    [found] = [one for one in stream.status().partitions if one.partition == partition]
    return found


def foreign_copy(stream: ClusterStream, name: str) -> str:
    """Somebody's own VolumeSnapshot of a partition's claim, with labels as ours have them; returns its UID."""
    stream.kubectl.apply(_foreign(stream, name))
    return uid_of(stream, name)


def uid_of(stream: ClusterStream, volume_snapshot: str) -> str:
    """The UID of a VolumeSnapshot. Raises KubectlFailed if there is none."""
    uid: str = stream.kubectl.get(VOLUME_SNAPSHOTS, volume_snapshot)["metadata"]["uid"]
    return uid


def _foreign(stream: ClusterStream, name: str) -> Object:
    labels = {f"{GROUP}/stream": stream.name, f"{GROUP}/partition": "0"}
    return {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": {"name": name, "labels": labels},
        "spec": {"source": {"persistentVolumeClaimName": claim_of(stream, 0)}},
    }
