"""kubectl, as a person would use it, and what it would find."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.cluster.environment import Environment
from tests.e2e.support.api_reader import ApiReader, ReadFailed, reader
from tests.support.patience import HANG_SECONDS, wait_for

Object = dict[str, Any]

_DEFAULT = "default"


class KubectlFailed(AssertionError):
    """kubectl ended with an error, or would have; the message is what it said."""


class Kubectl:
    """kubectl in one namespace, or with none named: `kubectl("delete", "pod", "orders-0-0")`."""

    def __init__(self, cluster: Environment, namespace: str | None = None) -> None:
        self._cluster = cluster
        self._namespace = namespace

    def within(self, namespace: str) -> "Kubectl":
        """The same in a namespace."""
        return Kubectl(self._cluster, namespace)

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        """Return what it printed; `given` goes to its standard input. Raises KubectlFailed."""
        done = self._run(arguments, given)
        if done.returncode != 0:
            raise KubectlFailed(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def refused(self, *arguments: str, given: str | None = None) -> str:
        """Return the error of what must fail."""
        done = self._run(arguments, given)
        assert done.returncode != 0, f"kubectl {' '.join(arguments)} was not refused: {done.stdout}"
        return done.stderr.strip()

    def get(self, kind: str, name: str) -> Object:
        """Return an object. Raises KubectlFailed."""
        found = self.find(kind, name)
        if found is None:
            raise KubectlFailed(f"{kind} {name}: not found")
        return found

    def find(self, kind: str, name: str) -> Object | None:
        """Return an object; None if there is none of that name. Raises KubectlFailed."""
        with self._reading() as read:
            return read.find(kind, name, self._namespace or _DEFAULT)

    def items(self, kinds: str, selector: str | None = None) -> list[Object]:
        """Return the objects of a kind, or of several with commas between. Raises KubectlFailed."""
        with self._reading() as read:
            return [
                item
                for kind in kinds.split(",")
                for item in read.items(kind, self._namespace or _DEFAULT, selector)
            ]

    def raw(self, path: str, *, timeout_seconds: float = HANG_SECONDS) -> str:
        """Return what the API server answers to a GET. Raises KubectlFailed."""
        with self._reading() as read:
            return read.raw(path, timeout_seconds=timeout_seconds)

    def apply(self, *objects: Object) -> None:
        """Apply objects. Raises KubectlFailed with the API server's refusal."""
        self("apply", "-f", "-", given=as_list(*objects))

    def patch(self, kind: str, name: str, changes: Object) -> None:
        """Merge changes into an object (JSON merge patch). Raises KubectlFailed."""
        self("patch", kind, name, "--type=merge", "--patch", json.dumps(changes))

    def remove(self, kind: str, *names: str) -> None:
        """Delete objects, if they are there, and wait until they are gone. Raises KubectlFailed."""
        self("delete", kind, *names, "--ignore-not-found", "--wait=false")
        for name in names:
            wait_for(partial(self._is_gone, kind, name), f"{kind} {name} is gone", poll_seconds=0.5)

    def wait_for_job(self, name: str) -> None:
        """Wait until a Job is complete."""

        def is_complete() -> bool:
            conditions = self.get("job", name).get("status", {}).get("conditions", [])
            return any((one["type"], one["status"]) == ("Complete", "True") for one in conditions)

        wait_for(is_complete, f"job {name} is complete", poll_seconds=0.5)

    def _is_gone(self, kind: str, name: str) -> bool:
        return self.find(kind, name) is None

    @contextmanager
    def _reading(self) -> Iterator[ApiReader]:
        try:
            yield reader(self._cluster.kubeconfig)
        except ReadFailed as error:
            raise KubectlFailed(str(error)) from error

    def _run(
        self, arguments: tuple[str, ...], given: str | None
    ) -> subprocess.CompletedProcess[str]:
        namespace = ["--namespace", self._namespace] if self._namespace else []
        return subprocess.run(
            ["kubectl", *namespace, *arguments],  # noqa: S607 # of the PATH below
            check=False,
            capture_output=True,
            text=True,
            input=given,
            timeout=HANG_SECONDS,
            env={
                **os.environ,
                "KUBECONFIG": self._cluster.kubeconfig,
                "PATH": self._cluster.path(),
            },
        )


def as_list(*objects: Object) -> str:
    """Objects as kubectl reads them."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
