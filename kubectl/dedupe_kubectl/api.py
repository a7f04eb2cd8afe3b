"""Client of the API server.

The commands call it. Invariant: each call has a bound on its time and on the size of its answer, and each failure is a
PluginError that says what to do.
"""

import json
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

import urllib3
from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException
from pydantic import ValidationError

from dedupe_crds.annotations import STREAM
from dedupe_crds.deadline import Deadline
from dedupe_crds.deep_json import allow_deep_json
from dedupe_crds.openapi import PARTITIONS_PLURAL, PLURAL, SNAPSHOT_PLURAL
from dedupe_crds.spec.stream import API_VERSION
from dedupe_crds.status.worker import WorkerStatus
from dedupe_kubectl.bounded_read import Unreadable, read_whole
from dedupe_kubectl.errors import (
    Forbidden,
    NoAccess,
    Unanswered,
    WorkerRefused,
    refusal,
)
from dedupe_kubectl.objects import Object, with_groups
from dedupe_kubectl.plain_text import without_controls

FIELD_MANAGER: Final = "kubectl-dedupe"
PARALLEL_CALLS: Final = 16
_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 20.0
_LONGEST_BYTES: Final = 64 << 20
_LONGEST_OF_WORKER_BYTES: Final = 4 << 20
_WORKER_PORT: Final = 8080
_PATCH: Final = "application/merge-patch+json"


def connect(kubeconfig: Path | None, context: str | None) -> "tuple[Api, str]":
    """Return a client and the default namespace, from the kubeconfig.

    It is found and read as kubectl does it.

    Raises:
        NoAccess: there is no kubeconfig, or it has no such context.
    """
    configuration = client.Configuration()
    file = str(kubeconfig) if kubeconfig else None
    try:
        contexts, active = config.list_kube_config_contexts(config_file=file)
        config.load_kube_config(
            config_file=file, context=context, client_configuration=configuration
        )
    except (ConfigException, OSError) as error:
        raise NoAccess(
            f"no usable kubeconfig: {_one_line(error).rstrip('.')}; set KUBECONFIG, or give --kubeconfig and --context"
        ) from error
    configuration.retries = False
    configuration.connection_pool_maxsize = PARALLEL_CALLS
    chosen = next((entry for entry in contexts if entry["name"] == context), active)
    return Api(client.ApiClient(configuration)), chosen["context"].get("namespace") or "default"


class Api:
    """Calls the API server with plain JSON objects.

    Each call is bounded in time and raises PluginError.
    """

    def __init__(self, api_client: client.ApiClient) -> None:
        allow_deep_json()
        self._client = api_client

    def streams(self, namespace: str | None, *, whole: bool = False) -> list[Object]:
        """Return all streams of a namespace, or of all namespaces.

        `whole`: with all their partitions, of which an object lists the first only.
        """
        found = self._items(_path(PLURAL, namespace), f"list dedupestreams {_where(namespace)}")
        return self._whole(found, namespace) if whole else found

    def stream(self, namespace: str, name: str) -> Object:
        """Return a stream with all its partitions."""
        path = _path(PLURAL, namespace, name)
        found = self._json("GET", path, f"get dedupestream {name} {_where(namespace)}")
        (stream,) = self._whole([found], namespace, f"{STREAM}={name}")
        return stream

    def patch_stream(self, namespace: str, name: str, change: Object) -> Object:
        """Change fields of a stream with a JSON merge patch."""
        path = _path(PLURAL, namespace, name)
        act = f"patch dedupestream {name} {_where(namespace)}"
        return self._json("PATCH", path, act, [("fieldManager", FIELD_MANAGER)], change)

    def snapshots(self, namespace: str | None) -> list[Object]:
        """Return all DedupeSnapshots of a namespace, or of all namespaces."""
        act = f"list dedupesnapshots {_where(namespace)}"
        return self._items(_path(SNAPSHOT_PLURAL, namespace), act)

    def snapshot(self, namespace: str, name: str) -> Object:
        """Return a DedupeSnapshot."""
        act = f"get dedupesnapshot {name} {_where(namespace)}"
        return self._json("GET", _path(SNAPSHOT_PLURAL, namespace, name), act)

    def create_snapshot(self, namespace: str, wanted: Object) -> Object:
        """Create a DedupeSnapshot."""
        act = f"create dedupesnapshot {wanted['metadata']['name']} {_where(namespace)}"
        query = [("fieldManager", FIELD_MANAGER)]
        return self._json("POST", _path(SNAPSHOT_PLURAL, namespace), act, query, wanted)

    def pods(self, namespace: str | None, stream: str | None = None) -> list[Object]:
        """Return the pods of workers: of a stream, of a namespace, or of all namespaces."""
        selector = f"{STREAM}={stream}" if stream else STREAM
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        selector += ",app.kubernetes.io/component=worker"
        return self._items(path, f"list pods {_where(namespace)}", selector)

    def operator_pods(self) -> list[Object]:
        """Return the pods of all operators of the cluster."""
        selector = "app.kubernetes.io/name=dedupestream,app.kubernetes.io/component=operator"
        return self._items("/api/v1/pods", "list pods in all namespaces", selector)

    def warnings(self, namespace: str) -> list[Object]:
        """Return the events of type Warning in a namespace."""
        return self._items(
            f"/api/v1/namespaces/{namespace}/events",
            f"list events {_where(namespace)}",
            fields="type=Warning",
        )

    def worker_status(self, namespace: str, pod: str) -> WorkerStatus | None:
        """Return a worker's status, None if it does not answer.

        The call goes through the API server's proxy.

        Raises:
            Forbidden: the user may not reach pods through the API server.
        """
        code, body = self._ask_worker("GET", _proxied(namespace, pod, "status"))
        if code == 403:
            raise Forbidden(f"you may not get pods/proxy {_where(namespace)}")
        try:
            return WorkerStatus.model_validate_json(body) if code == 200 else None
        except ValidationError:
            return None

    def admin_token(self, namespace: str, stream: str) -> str:
        """Return the token that admin calls to a stream's workers must carry."""
        name = f"{stream}-admin"
        path = f"/api/v1/namespaces/{namespace}/secrets/{quote(name, safe='')}"
        secret = self._json("GET", path, f"get secret {name} {_where(namespace)}")
        return b64decode(secret["data"]["token"]).decode()

    def call_worker(
        self, namespace: str, pod: str, call: str, body: Object, admin_token: str
    ) -> Object | None:
        """Return a worker's answer to an admin call; None if it does not answer.

        The call goes through the API server's proxy.

        Raises:
            WorkerRefused: the worker refused the call; the message is its reason.
            Forbidden, NoAccess: the user may not reach pods through the API server.
        """
        # Not as Authorization: the API server consumes that header itself.
        headers = {"X-Admin-Token": admin_token}
        code, text = self._ask_worker("POST", _proxied(namespace, pod, call), body, headers)
        answer = _parsed(text)
        if code == 200:
            return answer if isinstance(answer, dict) else None
        # A worker's errors have a title; the API server's own are of kind Status.
        if isinstance(answer, dict) and (title := answer.get("title")):
            description = answer.get("description")
            raise WorkerRefused(f"{title}: {description}" if description else title)
        if code == 403:
            raise Forbidden(f"you may not create pods/proxy {_where(namespace)}")
        if code == 401:
            raise refusal(code, answer, f"create pods/proxy {_where(namespace)}")
        return None

    def _ask_worker(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[int, bytes]:
        """Return the status and body of an answer; (0, b"") if it is too long or too late."""
        try:
            return self._exchange(
                method, path, [], body, headers, longest_bytes=_LONGEST_OF_WORKER_BYTES
            )
        except Unanswered:
            return 0, b""

    def _whole(
        self, streams: list[Object], namespace: str | None, labels: str | None = None
    ) -> list[Object]:
        """Return streams with the partitions that are in separate objects."""
        if not any((each.get("status") or {}).get("partitionCount") for each in streams):
            return streams
        act = f"list {PARTITIONS_PLURAL} {_where(namespace)}"
        groups = self._items(_path(PARTITIONS_PLURAL, namespace), act, labels)
        return [with_groups(each, groups) for each in streams]

    def _items(
        self, path: str, act: str, labels: str | None = None, *, fields: str | None = None
    ) -> list[Object]:
        query = [("labelSelector", labels)] if labels else []
        query += [("fieldSelector", fields)] if fields else []
        items: list[Object] = self._json("GET", path, act, query)["items"]
        return items

    def _json(
        self,
        method: str,
        path: str,
        act: str,
        query: list[tuple[str, str]] | None = None,
        body: Object | None = None,
    ) -> Object:
        code, text = self._exchange(method, path, query or [], body)
        answer = _parsed(text)
        if 200 <= code < 300 and isinstance(answer, dict):
            return answer
        raise refusal(code, answer, act)

    def _exchange(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]],
        body: Object | None,
        headers: Mapping[str, str] = MappingProxyType({}),
        *,
        longest_bytes: int = _LONGEST_BYTES,
    ) -> tuple[int, bytes]:
        request = self._client.param_serialize(
            method,
            path,
            query_params=query,
            header_params={
                "Accept": "application/json",
                "Content-Type": _PATCH if method == "PATCH" else "application/json",
                **headers,
            },
            body=body,
            auth_settings=["BearerToken"],
        )
        deadline, host = Deadline(_ANSWER_SECONDS), self._client.configuration.host
        try:
            answer = self._client.call_api(
                *request, _request_timeout=(_CONNECT_SECONDS, _ANSWER_SECONDS)
            )
            content = read_whole(answer.response, longest_bytes, deadline)
            return answer.status, without_controls(content)
        except (Unreadable, urllib3.exceptions.ReadTimeoutError) as error:
            raise Unanswered(
                f"the API server at {host} did not answer in full ({_one_line(error)}): try again, or "
                "ask for less, such as one namespace or one stream"
            ) from error
        except (urllib3.exceptions.HTTPError, client.ApiException, OSError) as error:
            raise NoAccess(
                f"the API server at {host} does not answer ({_one_line(error)}): check the context with "
                "`kubectl config current-context` and the connection with `kubectl cluster-info`"
            ) from error


def _path(plural: str, namespace: str | None, name: str = "") -> str:
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    item = f"/{quote(name, safe='')}" if name else ""
    return f"/apis/{API_VERSION}{within}/{plural}{item}"


def _proxied(namespace: str, pod: str, call: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{pod}:{_WORKER_PORT}/proxy/{call}"


def _where(namespace: str | None) -> str:
    return f"in namespace {namespace}" if namespace else "in all namespaces"


def _parsed(text: bytes) -> Any:  # noqa: ANN401 # JSON of any type
    try:
        return json.loads(text)
    except ValueError:
        return None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
