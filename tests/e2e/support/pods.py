"""Every state the pods of a stream go through, seen as it happens rather than now and then."""

import os
import signal
import subprocess
from collections.abc import Iterator
from threading import Thread
from typing import Self

from dedupe_crds.spec.stream import GROUP
from tests.cluster.environment import Environment
from tests.e2e.support.stream import ClusterStream
from tests.support.patience import HANG_SECONDS, wait_for

_BETWEEN = "|"  # kubectl makes columns of tabs
_FIELDS = (
    "{.type}",
    r"{.object.metadata.labels." + GROUP.replace(".", r"\.") + "/partition}",
    "{.object.metadata.uid}",
    "{.object.metadata.deletionTimestamp}",
    '{.object.status.conditions[?(@.type=="Ready")].status}',
)


class PodsWatched:
    """Watches a stream's pods while its block lasts, and begins with all of them ready.

    `replaced` are the partitions whose pods were followed by others, in that order; `most_unready`
    is the largest number of partitions that had no pod at one moment, or one that had yet to become
    ready. A pod whose probe misses later is not counted: on a busy machine that is nobody's doing.
    """

    def __init__(self, cluster: Environment, stream: ClusterStream) -> None:
        self._cluster = cluster
        self._stream = stream
        self._ready: dict[int, bool] = {}
        self._uids: dict[int, str] = {}
        self._have_been_ready: set[str] = set()
        self._process: subprocess.Popen[str] | None = None
        self._thread = Thread(target=self._follow, name="pods", daemon=True)
        self.replaced: list[int] = []
        self.most_unready = 0

    def __enter__(self) -> Self:
        line = _BETWEEN.join(_FIELDS) + r"{'\n'}"
        self._process = subprocess.Popen(
            [
                *("kubectl", "--namespace", self._stream.namespace, "get", "pods"),
                *("--selector", self._stream.selector, "--watch", "--output-watch-events"),
                *("-o", f"jsonpath={line}"),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "KUBECONFIG": self._cluster.kubeconfig,
                "PATH": self._cluster.path(),
            },
        )
        self._thread.start()
        wait_for(
            lambda: sum(self._ready.values()) == self._stream.partitions,
            "all pods are seen ready",
        )
        self.most_unready = 0
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        assert self._process is not None
        if failed is None:
            wait_for(
                lambda: set(self._uids.values()) == set(self._stream.uids("pods").values()),
                "the watch has seen all pods",
            )
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(HANG_SECONDS)
        self._thread.join(HANG_SECONDS)

    def _follow(self) -> None:
        for change, partition, uid, leaving, ready in self._changes():
            if ready == "True":
                self._have_been_ready.add(uid)
            here = change != "DELETED" and not leaving
            self._ready[partition] = here and uid in self._have_been_ready
            if self._uids.setdefault(partition, uid) != uid:
                self._uids[partition] = uid
                self.replaced.append(partition)
            unready = self._stream.partitions - sum(self._ready.values())
            self.most_unready = max(self.most_unready, unready)

    def _changes(self) -> Iterator[tuple[str, int, str, str, str]]:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            change, partition, uid, leaving, ready = line.rstrip("\n").split(_BETWEEN)
            yield change, int(partition), uid, leaving, ready
