"""Streams and pods as the API server has them, read leniently: newer releases may say more."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from dedupe_crds.formatting import ranges
from dedupe_crds.spec.stream import GROUP
from dedupe_crds.status.stream import Condition, PartitionStatus, StreamStatus
from dedupe_kubectl.errors import PluginError

Object = dict[str, Any]
"""A Kubernetes object, as JSON."""
_Status = TypeVar("_Status", bound=BaseModel)

PAUSE: Final = f"{GROUP}/pause-reconciliation"
PAUSED: Final = f"the annotation {PAUSE} keeps the operator off it"
RESTART: Final = f"{GROUP}/restart"
STREAM_LABEL: Final = f"{GROUP}/stream"
PARTITION_LABEL: Final = f"{GROUP}/partition"


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A DedupeStream. `changed` is when its user last wrote to it, as far as that is recorded, and
    `snapshots` who makes its snapshots, None if nobody does."""

    namespace: str
    name: str
    generation: int
    created: datetime
    changed: datetime
    deleting: datetime | None
    finalizers: Sequence[str]
    suspended: bool
    paused: bool
    flow: str
    snapshots: str | None
    annotations: Mapping[str, str]
    status: StreamStatus

    @property
    def title(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def observed(self) -> bool:
        """Whether the operator has seen the newest spec."""
        return (self.status.observed_generation or 0) >= self.generation

    def condition(self, type_: str, status: str | None = None) -> Condition | None:
        """One of its conditions, if it has this status."""
        found = next((one for one in self.status.conditions if one.type == type_), None)
        return found if found and status in {None, found.status.value} else None

    def partition(self, number: int) -> PartitionStatus | None:
        """The status of one partition."""
        return next((one for one in self.status.partitions if one.partition == number), None)

    def require(self, numbers: Iterable[int]) -> None:
        """Fail if the stream is not known to have these partitions.

        Raises:
            PluginError: it has others, or the operator has not said which.
        """
        known = [one.partition for one in self.status.partitions]
        if unknown := set(numbers) - set(known):
            has = f"it has {ranges(known)}" if known else "the operator has told of none yet"
            raise PluginError(f"{self.title} has no partition {ranges(unknown)}: {has}")


def read_stream(document: Object) -> Stream:
    """Read a DedupeStream.

    Raises:
        PluginError: its status is of a release this plugin does not know.
    """
    metadata, spec = document["metadata"], document.get("spec") or {}
    status = read_status(document, StreamStatus)
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    deleting = metadata.get("deletionTimestamp")
    return Stream(
        namespace=metadata["namespace"],
        name=metadata["name"],
        generation=metadata.get("generation", 1),
        created=created,
        changed=max([created, *_spec_changes(metadata)]),
        deleting=datetime.fromisoformat(deleting) if deleting else None,
        finalizers=metadata.get("finalizers") or (),
        suspended=spec.get("suspend") is True,
        paused=(metadata.get("annotations") or {}).get(PAUSE) == "true",
        snapshots=(spec.get("snapshots") or {}).get("provider"),
        annotations=metadata.get("annotations") or {},
        flow=f"{_topic(spec, 'input')} → {_topic(spec, 'output')}",
        status=status,
    )


def read_status(document: Object, model: type[_Status]) -> _Status:
    """The status of an object, without the fields of newer releases.

    Raises:
        PluginError: it is of a release this plugin does not know.
    """
    metadata = document["metadata"]
    try:
        return model.model_validate(document.get("status") or {}, extra="ignore")
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, one["loc"])) for one in error.errors())
        raise PluginError(
            f"the status of {metadata['namespace']}/{metadata['name']} is of another release of "
            f"dedupestream ({fields}): install the plugin of the operator's version"
        ) from error


def by_partition(pods: Iterable[Object]) -> dict[int, Object]:
    """The pods of a stream by their partition."""
    numbered = ((_partition_label(pod), pod) for pod in pods)
    return {int(number): pod for number, pod in numbered if number.isdecimal()}


def is_ready(pod: Object) -> bool:
    """Whether a pod is ready, and not on its way out."""
    conditions = (pod.get("status") or {}).get("conditions") or []
    return not pod["metadata"].get("deletionTimestamp") and any(
        one["type"] == "Ready" and one["status"] == "True" for one in conditions
    )


def _topic(spec: Object, side: str) -> str:
    return str((spec.get(side) or {}).get("topic", "?"))


def _partition_label(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(PARTITION_LABEL, ""))


def _spec_changes(metadata: Object) -> list[datetime]:
    return [
        datetime.fromisoformat(entry["time"])
        for entry in metadata.get("managedFields") or []
        if entry.get("time") and "f:spec" in (entry.get("fieldsV1") or {})
    ]
