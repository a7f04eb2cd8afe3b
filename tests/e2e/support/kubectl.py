"""kubectl, as a person would use it."""

import json
import os
import subprocess
from typing import Any

from tests.cluster.environment import Environment

Object = dict[str, Any]

_SECONDS = 120.0


class KubectlFailed(AssertionError):
    """kubectl ended with an error; the message is what it said."""


class Kubectl:
    """kubectl in one namespace, or with none named: `kubectl("delete", "pod", "orders-0-0")`."""

    def __init__(self, cluster: Environment, namespace: str | None = None) -> None:
        self._cluster = cluster
        self._namespace = namespace

    def within(self, namespace: str) -> "Kubectl":
        """The same in a namespace."""
        return Kubectl(self._cluster, namespace)

    def __call__(
        self, *arguments: str, given: str | None = None, timeout_seconds: float = _SECONDS
    ) -> str:
        """Return what it printed; `given` goes to its standard input. Raises KubectlFailed."""
        done = self._run(arguments, given, timeout_seconds)
        if done.returncode != 0:
            raise KubectlFailed(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def refused(self, *arguments: str, given: str | None = None) -> str:
        """Return the error of what must fail."""
        done = self._run(arguments, given, _SECONDS)
        assert done.returncode != 0, f"kubectl {' '.join(arguments)} was not refused: {done.stdout}"
        return done.stderr.strip()

    def json(self, *arguments: str) -> Object:
        """Return the object it answers with -o json. Raises KubectlFailed."""
        found: Object = json.loads(self(*arguments, "-o", "json"))
        return found

    def find(self, kind: str, name: str) -> Object | None:
        """Return an object; None if there is none of that name."""
        found = self("get", kind, name, "--ignore-not-found", "--show-managed-fields", "-o", "json")
        return json.loads(found) if found else None

    def items(self, kind: str, selector: str | None = None) -> list[Object]:
        """Return the objects of a kind, or of several with commas between."""
        chosen = ["--selector", selector] if selector else []
        found: list[Object] = self.json("get", kind, *chosen, "--show-managed-fields")["items"]
        return found

    def apply(self, *objects: Object) -> None:
        """Apply objects. Raises KubectlFailed with the API server's refusal."""
        self("apply", "-f", "-", given=as_list(*objects))

    def patch(self, kind: str, name: str, changes: Object) -> None:
        """Merge changes into an object (JSON merge patch). Raises KubectlFailed."""
        self("patch", kind, name, "--type=merge", "--patch", json.dumps(changes))

    def _run(
        self, arguments: tuple[str, ...], given: str | None, timeout_seconds: float
    ) -> subprocess.CompletedProcess[str]:
        namespace = ["--namespace", self._namespace] if self._namespace else []
        return subprocess.run(
            ["kubectl", *namespace, *arguments],  # noqa: S607 # of the PATH below
            check=False,
            capture_output=True,
            text=True,
            input=given,
            timeout=timeout_seconds,
            env={
                **os.environ,
                "KUBECONFIG": self._cluster.kubeconfig,
                "PATH": self._cluster.path(),
            },
        )


def as_list(*objects: Object) -> str:
    """Objects as kubectl reads them."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
