"""Which volume a partition's worker gets, and what a new one is made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dedupe_crds.annotations import RestoreRequest
from dedupe_crds.status.stream import PartitionPhase, PartitionStatus, Restore, RestoreSource
from dedupe_operator.decide.restore_source import Rung
from dedupe_operator.kubernetes.names import Object, claim_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimChoice:
    """The claim of a partition, and how its store comes about. `is_new`: it has to be recorded
    in the stream's status before it is acted upon."""

    name: str
    restore: Restore
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Vacancy:
    """A partition whose store has to come from somewhere. `fill` makes a choice of it.

    `name` is the claim it will have: a new one, or one that is still empty. `tried` are the snapshots that came to
    nothing, with the reason; `answered` is the user's last request that was seen to; `nothing_before`: the output
    topic was made just now, and holds nothing.
    """

    name: str
    reason: str
    tried: Mapping[str, str] = field(default_factory=dict)
    request: RestoreRequest | None = None
    answered: str | None = None
    nothing_before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What is wrong with the recorded claim, as its worker or the provider of its source found.

    `unusable`: the volume itself, such as one that holds another partition's store. `source`: what it was to be
    made from; the claim is empty then, and stays if `keep_claim`.
    """

    unusable: str | None = None
    source: str | None = None
    keep_claim: bool = False


def settle(
    stream: str,
    partition: int,
    *,
    recorded: PartitionStatus | None,
    live: Sequence[Object],
    class_name: str | None,
    output_created: bool,
    now: datetime,
    request: RestoreRequest | None = None,
    trouble: Trouble | None = None,
) -> ClaimChoice | Vacancy:
    """Keep a partition's claim, take over one that was kept, or say that its store has to come from elsewhere.

    `recorded` is what the status says, `live` are the claims that carry the partition's labels;
    `output_created` says that the output topic was made just now and holds nothing.

    The recorded claim stays, also before it was created. Otherwise an existing one is taken over, the newest first,
    but none that the recorded one once replaced. A claim under deletion can't be kept: its data goes when its worker
    does. Nor can one whose volume is lost, or that waits for another storage class than `class_name`, the one the
    stream names.
    """
    trouble = trouble or Trouble()
    dying = {one["metadata"]["name"] for one in live if one["metadata"].get("deletionTimestamp")}
    lost = {one["metadata"]["name"] for one in live if _phase(one) == "Lost"}
    homeless = {one["metadata"]["name"] for one in live if waits_elsewhere(one, class_name)}
    names = {one["metadata"]["name"] for one in live}
    usable = names - dying - lost - homeless
    known = recorded.persistent_volume_claim if recorded else None
    taken = [_serial(stream, partition, name) for name in (*names, known or "")]
    fresh = claim_name(stream, partition, max(taken, default=0) + 1)

    answered = recorded.restore.request if recorded and recorded.restore else None
    if request and recorded and recorded.restore and answered != request.request:
        return Vacancy(name=fresh, reason="it was asked for", request=request, answered=answered)
    if recorded and recorded.restore and known:
        stays = known in usable or _is_to_come(recorded, dying | lost | homeless)
        if stays and trouble.source:
            name = known if trouble.keep_claim or known not in names else fresh
            tried = _tried(recorded.restore, trouble.source)
            why = recorded.restore.reason
            return Vacancy(name=name, reason=why, tried=tried, answered=answered)
        if stays and trouble.unusable:
            why = f"volume claim {known} {trouble.unusable}"
            return Vacancy(name=fresh, reason=why, answered=answered)
        if stays:
            return ClaimChoice(name=known, restore=recorded.restore, is_new=False)
    later = [one for one in usable if known is None or _is_later(stream, partition, one, known)]
    if found := max(later, key=lambda name: _serial(stream, partition, name), default=None):
        reason = "its volume was kept, and is taken over again"
        source = RestoreSource.VOLUME
        restore = Restore(source=source, name=found, reason=reason, time=now, request=answered)
        return ClaimChoice(name=found, restore=restore, is_new=True)
    gone = known if known and known not in homeless else None
    reason = _why_vacant(gone, homeless, lost=gone in lost, output_created=output_created)
    nothing_before = output_created and not gone
    return Vacancy(name=fresh, reason=reason, answered=answered, nothing_before=nothing_before)


def fill(vacancy: Vacancy, rung: Rung, now: datetime) -> ClaimChoice:
    """The choice for a vacancy, from the source that was found for it."""
    source = rung.source
    if source is RestoreSource.OUTPUT_TOPIC and vacancy.nothing_before:
        source = RestoreSource.NOTHING
    restore = Restore(
        source=source,
        name=rung.name,
        reason=vacancy.reason,
        time=now,
        refused=list(rung.refused),
        request=vacancy.request.request if vacancy.request else vacancy.answered,
    )
    return ClaimChoice(name=vacancy.name, restore=restore, is_new=True)


def refuse(recorded: PartitionStatus, request: RestoreRequest, reason: str) -> ClaimChoice:
    """Keep what there is: the source a user asked for can't be restored from. The refusal answers the request."""
    assert recorded.restore is not None  # noqa: S101 # only a partition with a volume is asked to restore
    restore = recorded.restore.model_copy(update={"request": request.request, "refused": [reason]})
    name = recorded.persistent_volume_claim or ""
    return ClaimChoice(name=name, restore=restore, is_new=False)


def waits_elsewhere(claim: Object, class_name: str | None) -> bool:
    """Whether a claim has no volume yet, and is to get it from a class the stream no longer names."""
    if class_name is None or claim["spec"].get("volumeName"):
        return False
    return bool(claim["spec"].get("storageClassName") != class_name)


def _is_to_come(recorded: PartitionStatus, unusable: set[str]) -> bool:
    """Whether a recorded claim that is not there was not created yet, rather than deleted since."""
    provisioning = recorded.phase is PartitionPhase.PROVISIONING
    return provisioning and recorded.persistent_volume_claim not in unusable


def _is_later(stream: str, partition: int, name: str, known: str) -> bool:
    """Whether a claim did not come before the recorded one: what that replaced is not gone back to."""
    serial = _serial(stream, partition, name)
    return serial == 0 or serial >= _serial(stream, partition, known)


def _tried(restore: Restore, why: str) -> dict[str, str]:
    """What came to nothing for this volume: the source at hand, and those that were tried before it."""
    before = (one.partition(": ") for one in restore.refused)
    return {name: reason for name, _, reason in before} | {restore.name or "": why}


def _why_vacant(gone: str | None, homeless: set[str], *, lost: bool, output_created: bool) -> str:
    if gone:
        return f"volume claim {gone} {'lost its volume' if lost else 'was deleted'}"
    if output_created:
        return "a new stream: its output topic was created with it"
    if homeless:
        waiting = ", ".join(sorted(homeless))
        return f"{waiting} waits for a StorageClass the stream no longer names; it holds nothing, and can be deleted"
    return "there is no volume of this partition yet"


def is_bound(claim: Object | None) -> bool:
    """Whether a claim is there, and has its volume."""
    return claim is not None and _phase(claim) == "Bound"


def _phase(claim: Object) -> str | None:
    return (claim.get("status") or {}).get("phase")


def _serial(stream: str, partition: int, name: str) -> int:
    """The serial in a claim's name; 0 for a name the operator did not give."""
    text = name.removeprefix(claim_name(stream, partition, 0)[:-1])
    return int(text) if text.isdecimal() else 0
