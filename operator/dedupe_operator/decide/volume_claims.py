"""Choose the PersistentVolumeClaim of a partition, and its restore source.

The volume manager calls `choose_claim`. If that returns a `RestoreNeed`, the manager chooses a restore source and
passes both to `choose_restored`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from dedupe_crds.annotations import RestoreRequest, pending_restore
from dedupe_crds.formatting import first_of, shortened
from dedupe_crds.status.stream import PartitionPhase, PartitionStatus, Restore, RestoreSource
from dedupe_operator.decide.restore_source import RestoreChoice
from dedupe_operator.kubernetes.names import RESTORE_REQUEST, Object, claim_name

REQUESTED: Final = "requested by user"
_SHOWN: Final = 10
_LONGEST_REASON: Final = 300
_OUTDATED: Final = "the request is older than the stream; repeat it if it is still wanted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimChoice:
    """The claim of a partition and the origin of its store.

    `is_new`: the stream's status must record it before anything acts on it.
    """

    name: str
    restore: Restore
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreNeed:
    """A partition whose store must be restored; `fill_claim` makes it a choice.

    `name` is the claim it will have: a new one, or one that is still empty. `tried` are the snapshots that failed for
    this volume, with the reason. `answered` is the last request of the user that was processed. `nothing_before`: the
    output topic was created just now and is empty. With `made_before` a later copy is none to restore from.
    """

    name: str
    reason: str
    tried: Mapping[str, str] = field(default_factory=dict)
    request: RestoreRequest | None = None
    answered: str | None = None
    nothing_before: bool = False
    made_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimProblem:
    """A problem with the recorded claim, as its worker or provider found it.

    `unusable`: the volume itself, for example one that holds another partition's store, or a damaged one; `tried` and
    `made_before` are then as in RestoreNeed. `source`: the restore source;
    the claim is still empty then, and stays if `keep_claim`.
    """

    unusable: str | None = None
    source: str | None = None
    keep_claim: bool = False
    tried: Mapping[str, str] = field(default_factory=dict)
    made_before: datetime | None = None


def choose_claim(
    stream: str,
    partition: int,
    *,
    recorded: PartitionStatus | None,
    live: Sequence[Object],
    class_name: str | None,
    output_created: bool,
    now: datetime,
    added: bool = False,
    request: RestoreRequest | None = None,
    outdated: bool = False,
    problem: ClaimProblem | None = None,
) -> ClaimChoice | RestoreNeed:
    """Retain a claim, reattach a retained one, or report a need to restore.

    `recorded` is the partition in the stream's status, `live` are the claims with the partition's labels.
    `request` is one that was not answered yet, see `pending_request`. `outdated`: it is older than the stream, which
    was created again from a copy of itself.
    `output_created`: the output topic was created just now and is empty. `added`: so was this partition, by a growth.

    The recorded claim stays, also before it was created. Otherwise the newest existing one is reattached, but none that
    the recorded one once replaced. A claim is not usable if it is being deleted (its data goes with its worker), if its
    volume is lost, or if it waits for another storage class than `class_name`, which the stream names.
    """
    problem = problem or ClaimProblem()
    dying = {_name(claim) for claim in live if claim["metadata"].get("deletionTimestamp")}
    lost = {_name(claim) for claim in live if _phase(claim) == "Lost"}
    homeless = {_name(claim) for claim in live if waits_for_other_class(claim, class_name)}
    names = {_name(claim) for claim in live}
    usable = names - dying - lost - homeless
    known = recorded.persistent_volume_claim if recorded else None
    taken = [_serial(stream, partition, name) for name in (*names, known or "")]
    fresh = claim_name(stream, partition, max(taken, default=0) + 1)

    answered = recorded.restore.request if recorded and recorded.restore else None
    if request and recorded and recorded.restore:
        need = RestoreNeed(name=fresh, reason=REQUESTED, request=request, answered=answered)
        return refuse(recorded, request, f"{request.source}: {_OUTDATED}") if outdated else need
    if recorded and recorded.restore and known:
        stays = known in usable or _is_to_come(recorded, dying | lost | homeless)
        if stays and problem.source:
            name = known if problem.keep_claim or known not in names else fresh
            tried = _tried(recorded.restore, problem.source)
            reason = recorded.restore.reason
            return RestoreNeed(name=name, reason=reason, tried=tried, answered=answered)
        if stays and problem.unusable:
            return _moved(fresh, known, problem, answered)
        if stays:
            return ClaimChoice(name=known, restore=recorded.restore, is_new=False)
    later = [name for name in usable if known is None or _is_later(stream, partition, name, known)]
    if found := max(later, key=lambda name: _serial(stream, partition, name), default=None):
        answers = next(_answers(claim) for claim in live if _name(claim) == found)
        return _reattached(found, answered or answers, now)
    gone = known if known and known not in homeless else None
    new = _why_new(output_created=output_created, added=added)
    reason = _why_needed(gone, homeless, lost=gone in lost, new=new)
    nothing_before = bool(new) and not gone
    return RestoreNeed(name=fresh, reason=reason, answered=answered, nothing_before=nothing_before)


def pending_request(
    requests: Sequence[RestoreRequest],
    partition: int,
    recorded: PartitionStatus | None,
    live: Sequence[Object],
) -> RestoreRequest | None:
    """Return the next request of a partition, None if all are answered.

    The status may be lost, so the claims say too which request they answer.
    """
    answered = recorded.restore.request if recorded and recorded.restore else None
    return pending_restore(requests, partition, {answered, *map(_answers, live)})


def choose_restored(
    need: RestoreNeed, recorded: PartitionStatus | None, source: RestoreChoice, now: datetime
) -> ClaimChoice:
    """Choose the claim to restore from `source`; refuse an impossible request."""
    request = need.request
    if request and request.snapshot and recorded and source.source is RestoreSource.OUTPUT_TOPIC:
        return refuse(recorded, request, source.refused[0])
    return fill_claim(need, source, now)


def fill_claim(need: RestoreNeed, choice: RestoreChoice, now: datetime) -> ClaimChoice:
    """Return the choice that answers a need with the source that was found for it."""
    source = choice.source
    if source is RestoreSource.OUTPUT_TOPIC and need.nothing_before:
        source = RestoreSource.NOTHING
    of_files = source is RestoreSource.CHECKPOINT
    restore = Restore(
        source=source,
        name=choice.name,
        location=choice.entry.location if of_files and choice.entry else None,
        reason=need.reason,
        time=now,
        refused=first_of([shortened(each, _LONGEST_REASON) for each in choice.refused], _SHOWN),
        tried=dict(need.tried) or None,
        request=need.request.request if need.request else need.answered,
    )
    return ClaimChoice(name=need.name, restore=restore, is_new=True)


def refuse(recorded: PartitionStatus, request: RestoreRequest, reason: str) -> ClaimChoice:
    """Retain the recorded claim: the requested source can't be restored from.

    The refusal answers the request.
    """
    assert recorded.restore is not None  # noqa: S101 # only a partition with a volume gets a restore request
    restore = recorded.restore.model_copy(update={"request": request.request, "refused": [reason]})
    name = recorded.persistent_volume_claim or ""
    return ClaimChoice(name=name, restore=restore, is_new=False)


def waits_for_other_class(claim: Object, class_name: str | None) -> bool:
    """Return whether a claim without a volume waits for an outdated class.

    The stream no longer names that StorageClass.
    """
    if class_name is None or claim["spec"].get("volumeName"):
        return False
    return bool(claim["spec"].get("storageClassName") != class_name)


def is_bound(claim: Object | None) -> bool:
    """Return whether a claim exists and has its volume.

    Its spec alone proves nothing: whoever creates a claim may name any volume in it. Kubernetes writes the phase once
    claim and volume name each other.
    """
    return claim is not None and _phase(claim) == "Bound"


def is_volume_of(claim: Object, volume: Object) -> bool:
    """Return whether a PersistentVolume is bound to a claim, as both say."""
    of, metadata = volume["spec"].get("claimRef") or {}, claim["metadata"]
    if not is_bound(claim) or claim["spec"].get("volumeName") != volume["metadata"]["name"]:
        return False
    names = (of.get("namespace"), of.get("name"), of.get("uid"))
    return names == (metadata["namespace"], metadata["name"], metadata["uid"])


def _is_to_come(recorded: PartitionStatus, unusable: set[str]) -> bool:
    """Return whether an absent recorded claim was not created yet.

    False: it was deleted.
    """
    provisioning = recorded.phase is PartitionPhase.PROVISIONING
    return provisioning and recorded.persistent_volume_claim not in unusable


def _is_later(stream: str, partition: int, name: str, known: str) -> bool:
    """Return whether a claim is no older than the recorded one.

    A claim that the recorded one replaced is never used again.
    """
    serial = _serial(stream, partition, name)
    return serial == 0 or serial >= _serial(stream, partition, known)


def tried_before(restore: Restore | None, reason: str) -> dict[str, str]:
    """Return the failed sources of a volume that was restored: present and earlier."""
    copied = restore and restore.source in {RestoreSource.SNAPSHOT, RestoreSource.CHECKPOINT}
    return _tried(restore, reason) if restore and copied else {}


def _tried(restore: Restore, reason: str) -> dict[str, str]:
    """Return the failed sources of this volume: present and earlier, with reasons."""
    return {**(restore.tried or {}), restore.name or "": shortened(reason, _LONGEST_REASON)}


def _why_new(*, output_created: bool, added: bool) -> str:
    """Return why a partition never had a store; "" if it may have had one."""
    if output_created:
        return "a new stream: its output topic was created with it"
    return "a growth of the stream adds this partition" if added else ""


def _why_needed(gone: str | None, homeless: set[str], *, lost: bool, new: str) -> str:
    if gone:
        return f"PVC {gone} {'lost its volume' if lost else 'was deleted'}"
    if new:
        return new
    if homeless:
        waiting = ", ".join(sorted(homeless))
        return f"PVC {waiting} waits for a StorageClass that the stream no longer names; it is empty and can be deleted"
    return "there is no volume of this partition yet"


def _moved(name: str, known: str, problem: ClaimProblem, answered: str | None) -> RestoreNeed:
    return RestoreNeed(
        name=name,
        reason=f"PVC {known} {problem.unusable}",
        tried=problem.tried,
        answered=answered,
        made_before=problem.made_before,
    )


def _reattached(name: str, answered: str | None, now: datetime) -> ClaimChoice:
    restore = Restore(
        source=RestoreSource.VOLUME,
        name=name,
        reason="its volume was retained and is reattached",
        time=now,
        request=answered,
    )
    return ClaimChoice(name=name, restore=restore, is_new=True)


def _answers(claim: Object) -> str | None:
    """Return the id of the restore request that a claim answers."""
    return (claim["metadata"].get("annotations") or {}).get(RESTORE_REQUEST)


def _name(claim: Object) -> str:
    return str(claim["metadata"]["name"])


def _phase(claim: Object) -> str | None:
    return (claim.get("status") or {}).get("phase")


def _serial(stream: str, partition: int, name: str) -> int:
    """Return the serial in a claim's name; 0 for a name of other form."""
    text = name.removeprefix(claim_name(stream, partition, 0)[:-1])
    return int(text) if text.isdecimal() else 0
