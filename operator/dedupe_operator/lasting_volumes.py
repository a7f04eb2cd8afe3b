"""Keep unused claims, and volumes of restores, as this version wants them.

The applier calls it before it applies the claims in use. An object that is as wanted is neither read nor written.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from dedupe_crds.spec.store import ReclaimPolicy
from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.decide.drift import has_wanted_hash
from dedupe_operator.decide.volume_claims import is_volume_of
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import INSTANCE, NOT_PRUNED, Object, is_prunable
from dedupe_operator.kubernetes.resources import CLAIMS, PERSISTENT_VOLUMES


def keep(api: KubernetesApi, context: ReconcileContext, result: ReconcileResult) -> None:
    """Bring claims and volumes of an earlier version or spec up to date.

    Raises KubernetesError.
    """
    in_use = {choice.name for choice in result.claims.values()}
    for claims in context.observed.claims.values():
        for claim in claims:
            metadata = claim["metadata"]
            if not has_wanted_hash(claim) or metadata.get("deletionTimestamp"):
                continue
            # The volume first: the claim shows that it is still to be done.
            if is_prunable(metadata):
                _keep_volume(api, claim)
            if metadata["name"] not in in_use and (changes := _changes(claim, context.stream)):
                with _unless_changed():
                    api.patch_metadata(CLAIMS, claim, changes)


def _changes(claim: Object, stream: DedupeStream) -> Object:
    """Return what to change of an unused claim.

    With Retain it loses its owner. With Delete it gets none: an unused claim may hold the only copy of a store.
    """
    metadata, changes = claim["metadata"], {}
    if is_prunable(metadata):
        changes = {"labels": {INSTANCE: None}, "annotations": NOT_PRUNED}
    owners = metadata.get("ownerReferences") or []
    others = [owner for owner in owners if owner.get("uid") != stream.metadata.uid]
    if stream.spec.storage.reclaim_policy is ReclaimPolicy.RETAIN and others != owners:
        changes["ownerReferences"] = others
    return changes


def _keep_volume(api: KubernetesApi, claim: Object) -> None:
    """Keep a PersistentVolume from pruning if an EBS restore created it."""
    metadata, name = claim["metadata"], claim["spec"].get("volumeName") or ""
    if not re.fullmatch(rf"{metadata['name']}-[0-9a-f]{{12}}", name):
        return
    with _unless_changed("Forbidden"):  # without snapshots.ebs.enabled
        volume = api.get(PERSISTENT_VOLUMES, None, name)
        if volume and is_volume_of(claim, volume) and is_prunable(volume["metadata"]):
            changes = {"labels": {INSTANCE: None}, "annotations": NOT_PRUNED}
            api.patch_metadata(PERSISTENT_VOLUMES, volume, changes)


@contextmanager
def _unless_changed(*reasons: str) -> Iterator[None]:
    """Ignore that an object has changed or is gone: the next pass finds it."""
    try:
        yield
    except KubernetesError as error:
        if error.reason not in {"Conflict", "NotFound", *reasons}:
            raise
