"""Keep the objects of one kind in memory: a list, then a watch, repeatedly.

`CachedApi` reads them. Invariant: an object is never older than one that was read from here before, unless the API
server itself goes back. What a watch has missed, the next list finds, deletions too: each watch ends after some
minutes, and a list follows. While no list succeeds for longer than that, nothing is read from here.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event, RLock, Thread
from time import monotonic
from typing import Final

import orjson

from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import Resource
from dedupe_operator.kubernetes.watch_health import WatchHealth

_WATCH_SECONDS: Final = 240
_OLDEST_SECONDS: Final = _WATCH_SECONDS + 60.0

log = logging.getLogger(__name__)

_ANY: Final = ("", "")
"""In the place of a label: all objects of a namespace."""

_Name = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """An object as JSON, which takes a fifth of the memory of its dicts."""

    version: int
    uid: str
    labels: Mapping[str, str]
    text: bytes


class WatchCache:
    """The objects of one kind that a selector matches, of one namespace or of all.

    `changed` is called with each object that came, changed or went. `clock` returns seconds and never goes backward.
    """

    def __init__(
        self,
        api: KubernetesApi,
        resource: Resource,
        namespace: str | None,
        labels: Mapping[str, str],
        changed: Callable[[Object], None],
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self.labels = labels
        self._api = api
        self._changed = changed
        self._kept: dict[_Name, _Kept] = {}
        self._with: dict[tuple[str, str, str], set[_Name]] = {}
        self._clock = clock
        self._seen = 0  # the newest version of a list, or of the watch
        self._listed_at = float("-inf")
        self._lock = RLock()
        self._stop = Event()
        name = f"watch-{resource.plural}"
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start to list and to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, without waiting for the end of the watch."""
        self._stop.set()

    def covers(self, namespace: str | None, labels: Mapping[str, str]) -> bool:
        """Return whether all objects that a selector matches are here, and known."""
        inside = self.namespace is None or self.namespace == namespace
        return inside and self.labels.items() <= labels.items() and self._is_recent()

    def get(self, namespace: str, name: str) -> Object | None:
        """Return an object; None if it is not here, which is no proof of its absence."""
        with self._lock:
            kept = self._kept.get((namespace, name))
        return None if kept is None or not self._is_recent() else _object(kept)

    def find(self, namespace: str, labels: Mapping[str, str]) -> list[Object]:
        """Return the objects of a namespace that have these labels."""
        with self._lock:
            pairs = labels.items() or [_ANY]
            names = set.intersection(*(self._with.get((namespace, *pair), set()) for pair in pairs))
            found = [self._kept[each] for each in sorted(names)]
        return [_object(kept) for kept in found]

    def note(self, live: Object) -> None:
        """Take over an object that was just written, unless the watch has come further.

        Then the watch has shown it already, and perhaps its deletion.
        """
        metadata = live["metadata"]
        labels = metadata.get("labels") or {}
        if self.labels.items() <= labels.items():
            with self._lock:
                if 0 < self._seen < int(metadata["resourceVersion"]):
                    self._put(live)

    def _is_recent(self) -> bool:
        return self._clock() - self._listed_at < _OLDEST_SECONDS

    def _put(self, live: Object) -> bool:
        """Keep an object; return whether it is newer than what was here."""
        metadata = live["metadata"]
        at = (metadata["namespace"], metadata["name"])
        version = int(metadata["resourceVersion"])
        before = self._kept.get(at)
        if before is not None and before.version >= version:
            return False
        if before is not None:
            self._drop(at)
        labels = metadata.get("labels") or {}
        # The operator does not read who owns which field, and that is half of an object.
        lean = {**live, "metadata": {**metadata, "managedFields": None}}
        self._kept[at] = _Kept(version, metadata["uid"], labels, orjson.dumps(lean))
        for pair in (_ANY, *labels.items()):
            self._with.setdefault((at[0], *pair), set()).add(at)
        return True

    def _drop(self, at: _Name) -> _Kept | None:
        kept = self._kept.pop(at, None)
        for pair in (_ANY, *kept.labels.items()) if kept else ():
            names = self._with[at[0], *pair]
            names.discard(at)
            if not names:
                del self._with[at[0], *pair]
        return kept

    def _run(self) -> None:
        health = WatchHealth(self.resource.plural, self.namespace)
        while not self._stop.is_set():
            try:
                version = self._list()
                pause = health.works()
                self._watch(version)
            except KubernetesError as error:
                pause = health.fails(error.reason, str(error))
            except Exception as error:
                log.exception("watching %s", self.resource.plural)
                pause = health.fails(type(error).__name__, str(error))
            self._stop.wait(pause)

    def _list(self) -> str:
        """List all; return the version for the watch. Raises KubernetesError."""
        asked_at, version = self._clock(), ""
        listed: set[_Name] = set()
        for items, version in self._api.pages(self.resource, self.namespace, self.labels):
            self._take(items, int(version))
            listed |= {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in items}
        with self._lock:
            # What was written here after the list began is newer than the list, and no part of it.
            gone = [
                at
                for at, kept in self._kept.items()
                if at not in listed and kept.version <= int(version)
            ]
            for at in gone:
                kept = self._drop(at)
                if kept is not None:
                    self._changed(_object(kept))
            self._seen, self._listed_at = int(version), asked_at
        return version

    def _take(self, items: Sequence[Object], version: int) -> None:
        """Keep a page of a list."""
        with self._lock:
            if version < self._seen:  # etcd was restored from a backup
                self._kept.clear()
                self._with.clear()
                self._seen, self._listed_at = 0, float("-inf")
            for each in items:
                if self._put(each):
                    self._changed(each)

    def _watch(self, version: str) -> None:
        """Follow the changes until the watch ends. Raises KubernetesError."""
        changes = self._api.watch(
            self.resource, self.namespace, self.labels, version=version, seconds=_WATCH_SECONDS
        )
        for kind, live in changes:
            metadata = live["metadata"]
            with self._lock:
                self._seen = max(self._seen, int(metadata["resourceVersion"]))
                if kind == "DELETED":
                    kept = self._kept.get((metadata["namespace"], metadata["name"]))
                    if kept is not None and kept.uid == metadata["uid"]:
                        self._drop((metadata["namespace"], metadata["name"]))
                else:
                    self._put(live)
            self._changed(live)
            if self._stop.is_set():
                return


def _object(kept: _Kept) -> Object:
    found: Object = orjson.loads(kept.text)
    return found
