"""A client of the API server that reads what belongs to streams from memory.

The reconciler reads with it. Invariant: what is decided from memory deletes nothing, replaces no volume and changes no
worker that exists. A pass that comes to such a decision ends with `ReadLive`, and is made again with live reads.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import local
from typing import Final

from kubernetes import client

from dedupe_crds.annotations import ROUTERS_OF, STREAM
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.kubernetes.api import KubernetesApi, ReadLive
from dedupe_operator.kubernetes.names import OURS, Object
from dedupe_operator.kubernetes.resources import (
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    SNAPSHOTS,
    STATEFUL_SETS,
    Resource,
    resource_of,
)
from dedupe_operator.kubernetes.watch_cache import WatchCache

_KINDS: Final = (PODS, STATEFUL_SETS, CLAIMS, SERVICES, CONFIG_MAPS, SERVICE_ACCOUNTS, BUDGETS)


class CachedApi(KubernetesApi):
    """Client with a cache for each kind of child, and for snapshots."""

    def __init__(
        self,
        api_client: client.ApiClient,
        before_write: Callable[[], None],
        namespaces: Iterable[str] = (),
    ) -> None:
        super().__init__(api_client, before_write)
        self._reads = local()
        self._due: Callable[[Key], None] = lambda _: None
        places: list[str | None] = [*namespaces] or [None]
        self._caches: dict[str, list[WatchCache]] = {}
        for resource, labels in [*((kind, OURS) for kind in _KINDS), (SNAPSHOTS, {})]:
            self._caches[resource.plural] = [
                WatchCache(self, resource, place, labels, self._changed) for place in places
            ]

    def start(self, due: Callable[[Key], None]) -> None:
        """Start to watch; call `due` with the stream of each object that changes."""
        self._due = due
        for cache in self._all():
            cache.start()

    def stop(self) -> None:
        """Stop to watch."""
        for cache in self._all():
            cache.stop()

    @contextmanager
    def from_memory(self) -> Iterator[None]:
        """Let this thread read from memory within the block."""
        self._reads.cached = True
        try:
            yield
        finally:
            self._reads.cached = False

    def require_live(self) -> None:
        """Raise ReadLive if this thread reads from memory."""
        if getattr(self._reads, "cached", False):
            raise ReadLive

    def get(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        """Return one object, None if it does not exist. Raises KubernetesError."""
        if getattr(self._reads, "cached", False) and namespace is not None:
            for cache in self._caches.get(resource.plural, ()):
                if found := cache.get(namespace, name):
                    return found
        return super().get(resource, namespace, name)

    def find(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        labels: Mapping[str, str] | None = None,
        fields: str | None = None,
    ) -> list[Object]:
        """Return all objects with these labels and fields. Raises KubernetesError."""
        if getattr(self._reads, "cached", False) and namespace is not None and fields is None:
            wanted = labels or {}
            for cache in self._caches.get(resource.plural, ()):
                if cache.covers(namespace, wanted):
                    return cache.find(namespace, wanted)
        return super().find(resource, namespace, labels=labels, fields=fields)

    def apply(self, wanted: Object, *, subresource: str | None = None) -> Object:
        """Apply on the server side: own exactly the given fields. Raises KubernetesError."""
        return self._noted(super().apply(wanted, subresource=subresource))

    def create(self, wanted: Object) -> Object:
        """Create an object. Raises KubernetesError."""
        return self._noted(super().create(wanted))

    def patch_metadata(self, resource: Resource, live: Object, changes: Object) -> Object:
        """Change the metadata of the object as it was read. Raises KubernetesError."""
        return self._noted(super().patch_metadata(resource, live, changes))

    def delete(
        self, resource: Resource, live: Object, *, orphan: bool = False, force: bool = False
    ) -> None:
        """Delete the object with this UID. Raises KubernetesError, and ReadLive."""
        self.require_live()
        super().delete(resource, live, orphan=orphan, force=force)

    def _noted(self, live: Object) -> Object:
        """Keep what was just written: the watch may tell it later."""
        for cache in self._caches.get(resource_of(live).plural, ()):
            if cache.namespace in {None, live["metadata"].get("namespace")}:
                cache.note(live)
        return live

    def _changed(self, live: Object) -> None:
        metadata = live["metadata"]
        labels = metadata.get("labels") or {}
        name = labels.get(STREAM) or labels.get(ROUTERS_OF)
        if live.get("kind") == SNAPSHOTS.kind:
            name = live["spec"]["streamRef"]["name"]
        if name:
            self._due(Key(metadata["namespace"], name))

    def _all(self) -> Iterator[WatchCache]:
        for caches in self._caches.values():
            yield from caches
