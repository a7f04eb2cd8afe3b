"""Write child objects: each that is not as wanted, and no other.

The applier calls it. A cluster may change what is applied, as a mutating webhook does that replaces a registry. Such an
object never has the wanted fields, so it is as wanted if a repeated apply would not change it. What another program
changes back repeatedly is left alone for a while, and named.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from dedupe_crds.annotations import STREAM
from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.controller.context import ReconcileContext
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.decide.drift import (
    has_wanted_hash,
    is_as_wanted,
    part_of,
    with_wanted_hash,
)
from dedupe_operator.errors import ChangedByOthers, KubernetesError, NameTaken
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import WANTED_HASH, Object
from dedupe_operator.kubernetes.resources import CLAIMS, CONFIG_MAPS, resource_of
from dedupe_operator.resources import config_map

_MOST_CHANGES: Final = 5
_PAUSE_SECONDS: Final = 600.0

_Name = tuple[str, str]
"""Kind and name of an object."""


@dataclass(slots=True)
class _Applied:
    """The last apply of a wanted object: its result, and how often it was repeated."""

    uid: str
    wanted_hash: str
    result: Any
    changes: int
    at: float


@dataclass(slots=True)
class Children:
    """Writer of child objects.

    Its memory of results may be lost: then each object that the cluster changed is applied once more. `clock` returns
    seconds and never goes backward.
    """

    api: KubernetesApi
    clock: Callable[[], float]
    _applied: dict[Key, dict[_Name, _Applied]] = field(default_factory=dict, init=False)

    def ensure(self, context: ReconcileContext, wanted: Object) -> None:
        """Apply one object unless it already is as wanted. Raises KubernetesError."""
        if not has_wanted_hash(wanted):
            wanted = with_wanted_hash(wanted)
        metadata = wanted["metadata"]
        live = context.observed.children.get((wanted["kind"], metadata["name"]))
        if live is None:
            live = self.api.get(resource_of(wanted), metadata["namespace"], metadata["name"])
        elif live["metadata"].get("deletionTimestamp"):
            return  # a later pass creates it again, once it is gone
        if live is not None and not _is_ours(live, context):
            raise NameTaken(live)
        if live is None:
            self._record(wanted, self.api.apply(wanted), changes=0)
        elif not self.is_current(live, wanted):
            self._change(live, wanted)

    def is_current(self, live: Object, wanted: Object) -> bool:
        """Return whether an apply would change nothing."""
        if is_as_wanted(live, wanted):
            return True
        applied = self._last(live, wanted)
        return applied is not None and applied.result == part_of(live, wanted)

    def delete_unused_configs(self, context: ReconcileContext) -> None:
        """Delete ConfigMaps of earlier manifests. Raises KubernetesError."""
        observed = context.observed
        sets = [*observed.stateful_sets.values(), observed.router_set]
        templates = [live["spec"]["template"] for live in sets if live]
        pods = [*observed.pods.values(), *observed.routers.values(), *observed.strays.values()]
        used = {config_map.mounted(each) or "" for each in (*templates, *pods)}
        configs = [
            each
            for (kind, _), each in observed.children.items()
            if kind == CONFIG_MAPS.kind and is_owned(each, context.stream)
        ]
        for config in config_map.unused(configs, used, context.stream):
            self.api.delete(CONFIG_MAPS, config)
            self._of_stream(config).pop(_name(config), None)

    def forget(self, key: Key) -> None:
        """Forget a deleted stream."""
        self._applied.pop(key, None)

    def _last(self, live: Object, wanted: Object) -> _Applied | None:
        """Return the last apply to this object, if the same was wanted."""
        applied = self._of_stream(wanted).get(_name(wanted))
        same = (live["metadata"]["uid"], wanted["metadata"]["annotations"][WANTED_HASH])
        return applied if applied and (applied.uid, applied.wanted_hash) == same else None

    def _change(self, live: Object, wanted: Object) -> None:
        """Apply to the object with this UID only; do nothing if it was deleted meanwhile.

        The next pass observes that it is gone, and may want something else. This matters most for a claim: applied
        again, it would be created from its old source.
        """
        last = self._last(live, wanted)
        changes = last.changes + 1 if last and self.clock() - last.at < _PAUSE_SECONDS else 0
        if changes > _MOST_CHANGES:
            raise ChangedByOthers(wanted)
        same_object = {**wanted["metadata"], "uid": live["metadata"]["uid"]}
        try:
            result = self.api.apply({**wanted, "metadata": same_object})
        except KubernetesError as error:
            if error.reason != "Conflict":
                raise
            return
        self._record(wanted, result, changes=changes)

    def _record(self, wanted: Object, result: Object, *, changes: int) -> None:
        self._of_stream(wanted)[_name(wanted)] = _Applied(
            uid=result["metadata"]["uid"],
            wanted_hash=wanted["metadata"]["annotations"][WANTED_HASH],
            result=part_of(result, wanted),
            changes=changes,
            at=self.clock(),
        )

    def _of_stream(self, child: Object) -> dict[_Name, _Applied]:
        metadata = child["metadata"]
        key = Key(metadata["namespace"], metadata["labels"][STREAM])
        return self._applied.setdefault(key, {})


def _name(child: Object) -> _Name:
    return child["kind"], child["metadata"]["name"]


def is_owned(live: Object, stream: DedupeStream) -> bool:
    """Return whether an object has a stream as its owner."""
    owners = live["metadata"].get("ownerReferences") or []
    return stream.metadata.uid in {owner.get("uid") for owner in owners}


def _is_ours(live: Object, context: ReconcileContext) -> bool:
    """Return whether an object belongs to this stream, even without its label."""
    metadata = live["metadata"]
    if (metadata.get("labels") or {}).get(STREAM) == context.stream.metadata.name:
        return True
    if is_owned(live, context.stream):
        return True
    if live["kind"] != CLAIMS.kind or not has_wanted_hash(live):
        return False  # the status names a claim before it is created, so a recorded name alone proves nothing
    recorded = {partition.persistent_volume_claim for partition in context.recorded.partitions}
    return metadata["name"] in recorded
