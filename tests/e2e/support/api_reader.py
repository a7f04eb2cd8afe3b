"""Reading from the API server over one connection.

Tests look every half second, and each kubectl would take 0.2 CPU seconds.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock
from typing import Any

from kubernetes.client import ApiException
from kubernetes.config import new_client_from_config
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import DynamicApiError, NotFoundError
from kubernetes.dynamic.resource import Resource, ResourceList
from urllib3.exceptions import HTTPError

from tests.support.patience import HANG_SECONDS

_Object = dict[str, Any]


class ReadFailed(AssertionError):
    """The API server refused a read, or could not be reached."""


class ApiReader:
    """Finds what `kubectl get` would find, with its names of kinds: pod, pods, dedupestreams.dedupestream.io."""

    def __init__(self, kubeconfig: str) -> None:
        discovered = Path(mkdtemp(prefix="kinds-")) / "kinds.json"
        client = new_client_from_config(kubeconfig)
        self._client = DynamicClient(client, cache_file=str(discovered))
        self._resources: dict[str, Resource] = {}
        self._lock = Lock()

    def find(self, kind: str, name: str, namespace: str) -> _Object | None:
        """An object; None if there is none of that name. Raises ReadFailed."""
        resource = self._resource(kind)
        try:
            with _read_errors(f"{kind} {name}"):
                return self._get(resource.path(name, namespace))
        except ReadFailed as error:
            if isinstance(error.__cause__, NotFoundError):
                return None
            raise

    def items(self, kind: str, namespace: str, selector: str | None = None) -> list[_Object]:
        """The objects of a kind. Raises ReadFailed."""
        resource = self._resource(kind)
        with _read_errors(kind):
            found = self._get(resource.path(None, namespace), label_selector=selector)
        # In a list the API server leaves out what all items have in common.
        common = {"apiVersion": resource.group_version, "kind": resource.kind}
        return [common | item for item in found["items"]]

    def raw(self, path: str, *, timeout_seconds: float = HANG_SECONDS) -> str:
        """What the API server answers to a GET. Raises ReadFailed."""
        with _read_errors(path):
            answer = self._client.request(
                "get", path, serialize=False, _request_timeout=timeout_seconds
            )
            # Read here: a pod that goes while it answers breaks the answer off.
            text: str = answer.data.decode()
        return text

    def _get(self, path: str, **query: str | None) -> _Object:
        answer = self._client.request(
            "get", path, serialize=False, _request_timeout=HANG_SECONDS, **query
        )
        found: _Object = json.loads(answer.data)
        return found

    def _resource(self, kind: str) -> Resource:
        with self._lock:
            if kind not in self._resources:
                with _read_errors(kind):
                    found = self._discovered(kind)
                    if not found:  # it may have come since the last look
                        self._client.resources.invalidate_cache()
                        found = self._discovered(kind)
                if not found:
                    raise ReadFailed(f"the API server has no {kind}")
                # Events are of the core group and of another one.
                self._resources[kind] = min(found, key=lambda resource: len(resource.group))
            return self._resources[kind]

    def _discovered(self, kind: str) -> list[Resource]:
        name, _, group = kind.partition(".")
        return [
            resource
            for same_kind in self._client.resources
            for resource in same_kind
            if not isinstance(resource, ResourceList)
            and resource.preferred
            and name in {resource.name, resource.singular_name, resource.kind}
            and (not group or resource.group == group)
        ]


@contextmanager
def _read_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (ApiException, DynamicApiError, HTTPError) as error:
        raise ReadFailed(f"{what}: {error}") from error


@cache
def reader(kubeconfig: str) -> ApiReader:
    """One for all that read from a cluster: finding out what kinds it has takes a second."""
    return ApiReader(kubeconfig)
