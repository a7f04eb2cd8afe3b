"""Which volume a partition's worker gets."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dedupe_crds.status import PartitionPhase, PartitionStatus, Restore, RestoreSource
from dedupe_operator.labels import Object, claim_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimChoice:
    """The claim of a partition, and how its store comes about. `is_new`: it has to be recorded
    in the stream's status before it is acted upon."""

    name: str
    restore: Restore
    is_new: bool


def choose(
    stream: str,
    partition: int,
    *,
    recorded: PartitionStatus | None,
    live: Sequence[Object],
    class_name: str | None,
    output_created: bool,
    now: datetime,
) -> ClaimChoice:
    """Choose a partition's claim.

    `recorded` is what the status says, `live` are the claims that carry the partition's labels;
    `output_created` says that the output topic was made just now and holds nothing.

    The recorded claim stays, also before it was created. Otherwise an existing one is taken
    over, the newest first; otherwise there is a new one, and the worker fills it from the output topic.
    A claim under deletion can't be kept: its data goes when its worker does. Nor can one that
    waits for another storage class than `class_name`, the one the stream names.
    """
    dying = {
        claim["metadata"]["name"] for claim in live if claim["metadata"].get("deletionTimestamp")
    }
    homeless = {claim["metadata"]["name"] for claim in live if waits_elsewhere(claim, class_name)}
    usable = {claim["metadata"]["name"] for claim in live} - dying - homeless
    known = recorded.persistent_volume_claim if recorded else None
    if (
        recorded
        and recorded.restore
        and known
        and (known in usable or _is_to_come(recorded, dying | homeless))
    ):
        return ClaimChoice(name=known, restore=recorded.restore, is_new=False)
    if found := max(usable, key=lambda name: _serial(stream, partition, name), default=None):
        reason = "its volume was kept, and is taken over again"
        restore = Restore(source=RestoreSource.VOLUME, name=found, reason=reason, time=now)
        return ClaimChoice(name=found, restore=restore, is_new=True)
    taken = [_serial(stream, partition, name) for name in (*dying, *homeless, known or "")]
    name = claim_name(stream, partition, max(taken, default=0) + 1)
    deleted = known if known not in homeless else None
    source, reason = _origin(output_created=output_created, deleted=deleted, homeless=homeless)
    return ClaimChoice(
        name=name, restore=Restore(source=source, reason=reason, time=now), is_new=True
    )


def waits_elsewhere(claim: Object, class_name: str | None) -> bool:
    """Whether a claim has no volume yet, and is to get it from a class the stream no longer names."""
    if class_name is None or claim["spec"].get("volumeName"):
        return False
    return bool(claim["spec"].get("storageClassName") != class_name)


def _is_to_come(recorded: PartitionStatus, unusable: set[str]) -> bool:
    """Whether a recorded claim that is not there was not created yet, rather than deleted since."""
    provisioning = recorded.phase is PartitionPhase.PROVISIONING
    return provisioning and recorded.persistent_volume_claim not in unusable


def _origin(
    *, output_created: bool, deleted: str | None, homeless: set[str]
) -> tuple[RestoreSource, str]:
    """Where a new volume's store comes from, and why."""
    if deleted:
        return RestoreSource.OUTPUT_TOPIC, f"volume claim {deleted} was deleted"
    if output_created:
        return RestoreSource.NOTHING, "a new stream: its output topic was created with it"
    if homeless:
        waiting = ", ".join(sorted(homeless))
        return (
            RestoreSource.OUTPUT_TOPIC,
            f"{waiting} waits for a StorageClass the stream no longer names; it holds nothing, and can be deleted",
        )
    return RestoreSource.OUTPUT_TOPIC, "there is no volume of this partition yet"


def _serial(stream: str, partition: int, name: str) -> int:
    """The serial in a claim's name; 0 for a name the operator did not give."""
    text = name.removeprefix(claim_name(stream, partition, 0)[:-1])
    return int(text) if text.isdecimal() else 0
