"""An API server in memory with list and watch, for the caches of one process."""

import itertools
from collections.abc import Iterator, Mapping
from queue import Empty, Queue
from typing import Any, Final

from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import Resource
from tests.support.patience import HANG_SECONDS

Change = tuple[str, Object]

_PAGE: Final = 2  # objects of a list, so that few of them are several pages


class ApiServer(KubernetesApi):
    """Objects of one kind. Watches get the changes that are sent; what is not sent, only a list shows."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.lists = 0
        self.watches: Queue[Queue[Change | None]] = Queue()
        self.fails: Exception | None = None
        self._versions = itertools.count(100)
        self._open: list[Queue[Change | None]] = []

    def put(self, name: str, *, sent: bool = True, **fields: Any) -> Object:  # noqa: ANN401
        """Store an object; `labels` and `uid` are those of its metadata."""
        at = ("shop", name)
        kind = "MODIFIED" if at in self.objects else "ADDED"
        metadata = {"namespace": "shop", "name": name, "uid": fields.pop("uid", f"uid-{name}")}
        metadata |= {"labels": fields.pop("labels", {}), "resourceVersion": self._next()}
        live = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, **fields}
        self.objects[at] = live
        if sent:
            self.send(kind, live)
        return live

    def remove(self, name: str, *, sent: bool = True) -> None:
        live = self.objects.pop(("shop", name))
        if sent:
            metadata = {**live["metadata"], "resourceVersion": self._next()}
            self.send("DELETED", {**live, "metadata": metadata})

    def go_back(self) -> None:
        """Begin again with versions that were there before."""
        self._versions = itertools.count(1)

    def send(self, kind: str, live: Object) -> None:
        for each in self._open:
            each.put((kind, live))

    def end_watches(self) -> None:
        for each in self._open:
            each.put(None)
        self._open.clear()

    def pages(
        self,
        resource: Resource,
        namespace: str | None,
        labels: Mapping[str, str],
    ) -> Iterator[tuple[list[Object], str]]:
        assert resource.plural
        self.lists += 1
        if self.fails:
            raise self.fails
        found = [
            each
            for each in self.objects.values()
            if namespace in {None, each["metadata"]["namespace"]}
            and labels.items() <= each["metadata"]["labels"].items()
        ]
        version = self._next()
        for first in range(0, max(len(found), 1), _PAGE):
            yield found[first : first + _PAGE], version

    def watch(
        self,
        resource: Resource,
        namespace: str | None,
        labels: Mapping[str, str],
        *,
        version: str,
        seconds: int,
    ) -> Iterator[Change]:
        assert resource.plural
        assert (namespace, int(version) > 0, seconds > 0) == (namespace, True, True)
        changes: Queue[Change | None] = Queue()
        self._open.append(changes)
        self.watches.put(changes)
        while (change := _next(changes)) is not None:
            if labels.items() <= change[1]["metadata"]["labels"].items():
                yield change

    def _next(self) -> str:
        return str(next(self._versions))


def _next(changes: Queue[Change | None]) -> Change | None:
    try:
        return changes.get(timeout=HANG_SECONDS)
    except Empty:
        return None
