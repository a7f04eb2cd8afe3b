"""Client of the API server: JSON objects in and out, a timeout on each call.

All reads and writes of the operator pass through `KubernetesApi`.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final

import orjson
import urllib3
from kubernetes import client

from dedupe_crds.deep_json import allow_deep_json
from dedupe_operator import metrics
from dedupe_operator.errors import KubernetesError, Unreachable, refusal_reason
from dedupe_operator.kubernetes.names import FIELD_MANAGER, Object
from dedupe_operator.kubernetes.resources import EVENTS, Resource, resource_of

_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 20.0
_CHUNK: Final = 500
# Any number of events of any size may stand in a namespace, and no other list has what users alone write.
_LONGEST_EVENTS_BYTES: Final = 16 << 20
TOO_LONG: Final = "AnswerTooLong"
_JSON: Final = "application/json"
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_NO_ANSWER: Final = (urllib3.exceptions.HTTPError, client.ApiException, OSError)

log = logging.getLogger(__name__)


class ReadLive(Exception):
    """The next decision must not be made from memory. The pass is made again.

    Not a KubernetesError, because it is no failure.
    """


class KubernetesApi:
    """Reads and writes; `before_write` runs before each write and may forbid it.

    All its reads are live.
    """

    def __init__(self, api_client: client.ApiClient, before_write: Callable[[], None]) -> None:
        allow_deep_json()
        self._client = api_client
        self._before_write = before_write

    @contextmanager
    def from_memory(self) -> Iterator[None]:
        """Let this thread read from memory within the block, where there is any."""
        yield

    def require_live(self) -> None:
        """Raise ReadLive if this thread reads from memory."""

    def serves(self, api_version: str) -> bool:
        """Return whether the API server serves an API version. Raises KubernetesError."""
        status, text = self._exchange("GET", f"/apis/{api_version}", [], None, _JSON)
        if status not in {200, 404}:
            raise _refusal(status, text)
        return status == 200

    def get(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        """Return one object, None if it does not exist. Raises KubernetesError."""
        try:
            return self._call("GET", resource, resource.path(namespace, name))
        except KubernetesError as error:
            if error.reason == "NotFound":
                return None
            raise

    def find(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        labels: Mapping[str, str] | None = None,
        fields: str | None = None,
    ) -> list[Object]:
        """Return all objects with these labels and fields. Raises KubernetesError."""
        query = [("labelSelector", _selector(labels))] if labels else []
        query += [("fieldSelector", fields)] if fields else []
        longest = _LONGEST_EVENTS_BYTES if resource is EVENTS else None
        answer = self._call("GET", resource, resource.path(namespace), query, longest_bytes=longest)
        return _items(resource, answer)

    def pages(
        self, resource: Resource, namespace: str | None, labels: Mapping[str, str]
    ) -> Iterator[tuple[list[Object], str]]:
        """Yield all objects with these labels by pages, each with the version of the list.

        Raises KubernetesError.
        """
        query = [("labelSelector", _selector(labels)), ("limit", str(_CHUNK))]
        following: list[tuple[str, str]] = []
        while True:
            answer = self._call("GET", resource, resource.path(namespace), query + following)
            metadata = answer["metadata"]
            yield _items(resource, answer), metadata["resourceVersion"]
            if not metadata.get("continue"):
                return
            following = [("continue", metadata["continue"])]

    def watch(
        self,
        resource: Resource,
        namespace: str | None,
        labels: Mapping[str, str],
        *,
        version: str,
        seconds: int,
    ) -> Iterator[tuple[str, Object]]:
        """Yield each change since a version, with its type, for some seconds.

        Raises KubernetesError.
        """
        options = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(seconds)}
        query = [("labelSelector", _selector(labels)), *options.items()]
        metrics.API_REQUESTS.labels(verb="watch", resource=resource.plural).inc()
        try:
            answer = self._send("GET", resource.path(namespace), query, seconds + _ANSWER_SECONDS)
            with closing(answer.response) as lines:
                if answer.status != 200:
                    raise _refusal(answer.status, answer.read())
                for line in lines:
                    event = _parsed(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise KubernetesError(str(status["reason"]), str(status["message"]))
                    yield event["type"], event["object"]
        except _NO_ANSWER as error:
            raise Unreachable(f"the watch ended: {error}") from error

    def apply(self, wanted: Object, *, subresource: str | None = None) -> Object:
        """Apply on the server side: own exactly the given fields. Raises KubernetesError."""
        resource = resource_of(wanted)
        namespace, name = wanted["metadata"].get("namespace"), wanted["metadata"]["name"]
        path = resource.path(namespace, name)
        if subresource:
            path += f"/{subresource}"
        query = [("fieldManager", FIELD_MANAGER), ("force", "true")]
        self._before_write()
        log.info("apply %s %s", resource.kind, f"{namespace}/{name}" if namespace else name)
        return self._call("PATCH", resource, path, query, body=wanted, content_type=_APPLY)

    def create(self, wanted: Object) -> Object:
        """Create an object. Raises KubernetesError."""
        resource = resource_of(wanted)
        self._before_write()
        path = resource.path(wanted["metadata"]["namespace"])
        return self._call("POST", resource, path, [("fieldManager", FIELD_MANAGER)], body=wanted)

    def patch_metadata(self, resource: Resource, live: Object, changes: Object) -> Object:
        """Change the metadata of the object as it was read, whoever set it; None removes.

        Raises KubernetesError, with reason "Conflict" if the object has changed since then.
        """
        metadata = live["metadata"]
        namespace, name = metadata.get("namespace"), metadata["name"]
        given = {key: metadata[key] for key in ("uid", "resourceVersion")}
        self._before_write()
        log.info("patch %s %s", resource.kind, f"{namespace}/{name}" if namespace else name)
        body = {"metadata": {**given, **changes}}
        path = resource.path(namespace, name)
        return self._call("PATCH", resource, path, body=body, content_type=_MERGE)

    def delete(
        self, resource: Resource, live: Object, *, orphan: bool = False, force: bool = False
    ) -> None:
        """Delete the object with this UID, not a later one of its name.

        `orphan` leaves the objects that it owns. `force` does not wait for a pod's node to confirm the end of the pod.
        Raises KubernetesError.
        """
        metadata = live["metadata"]
        namespace, name = metadata.get("namespace"), metadata["name"]
        options: Object = {
            "preconditions": {"uid": metadata["uid"]},
            "propagationPolicy": "Orphan" if orphan else "Background",
        }
        if force:
            options["gracePeriodSeconds"] = 0
        self._before_write()
        log.info("delete %s %s%s", resource.kind, f"{namespace}/" if namespace else "", name)
        try:
            path = resource.path(namespace, name)
            self._call("DELETE", resource, path, body=options)
        except KubernetesError as error:
            if error.reason not in {"NotFound", "Conflict"}:  # gone, or replaced by another one
                raise

    def _call(
        self,
        method: str,
        resource: Resource,
        path: str,
        query: list[tuple[str, str]] | None = None,
        *,
        body: Object | None = None,
        content_type: str = _JSON,
        longest_bytes: int | None = None,
    ) -> Object:
        metrics.API_REQUESTS.labels(verb=method.lower(), resource=resource.plural).inc()
        status, text = self._exchange(
            *(method, path, query or [], body, content_type), longest_bytes=longest_bytes
        )
        if 200 <= status < 300:
            return _parsed(text)
        raise _refusal(status, text)

    def _exchange(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]],
        body: Object | None,
        content_type: str,
        *,
        longest_bytes: int | None = None,
    ) -> tuple[int, bytes]:
        # As text: the client does not know apply patches; it writes the other bodies itself.
        content = json.dumps(body) if content_type == _APPLY else body
        try:
            answer = self._send(
                *(method, path, query, _ANSWER_SECONDS), content=content, content_type=content_type
            )
            if longest_bytes is None:
                return answer.status, answer.read()
            text = answer.response.read(longest_bytes + 1)
        except _NO_ANSWER as error:
            raise Unreachable(f"the API server does not answer: {error}") from error
        if len(text) > longest_bytes:
            answer.response.close()
            raise KubernetesError(TOO_LONG, f"more than {longest_bytes} bytes: {path}")
        return answer.status, text

    def _send(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]],
        seconds: float,
        *,
        content: Object | str | None = None,
        content_type: str = _JSON,
    ) -> Any:  # noqa: ANN401 # the library's
        """Send a request; `seconds` is the longest pause within the answer."""
        request = self._client.param_serialize(
            method,
            path,
            query_params=query,
            header_params={"Accept": "application/json", "Content-Type": content_type},
            body=content,
            auth_settings=["BearerToken"],
        )
        return self._client.call_api(*request, _request_timeout=(_CONNECT_SECONDS, seconds))


def _parsed(text: bytes) -> Object:
    """Read JSON; orjson is fast, and refuses what is deeper than 1,024."""
    try:
        content: Object = orjson.loads(text)
    except orjson.JSONDecodeError:
        content = json.loads(text)
    return content


def _selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _items(resource: Resource, answer: Object) -> list[Object]:
    """Return the objects of a list, which omits from each what the list states."""
    stated = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [{**stated, **item} for item in answer["items"]]


def _refusal(status: int, text: bytes) -> KubernetesError:
    message = _message(text)
    return KubernetesError(refusal_reason(status, message), message)


def _message(text: bytes) -> str:
    """Return the API server's message, or the text of its answer without one."""
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and answer.get("message"):
        return str(answer["message"])
    return text[:500].decode(errors="replace") or "no reason given"
