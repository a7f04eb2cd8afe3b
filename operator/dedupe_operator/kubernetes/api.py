"""The API server, as far as the operator needs it: plain JSON objects in and out, every call bounded in time."""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import urllib3
from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException

from dedupe_crds.openapi import PLURAL, SNAPSHOT_PLURAL
from dedupe_crds.spec.stream import API_VERSION, KIND
from dedupe_crds.status.snapshot import KIND as SNAPSHOT_KIND
from dedupe_operator import metrics
from dedupe_operator.errors import KubernetesError, Unreachable, refusal_reason
from dedupe_operator.kubernetes.names import FIELD_MANAGER, Object

_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 20.0
_JSON: Final = "application/json"
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None, name: str | None = None) -> str:
        """The path of one object, or of the collection; without a namespace, of that in all of them."""
        prefix = "/api" if self.api_version == "v1" else "/apis"
        parts = [prefix, self.api_version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        return "/".join(parts if name is None else [*parts, quote(name, safe="")])


STREAMS: Final = Resource(API_VERSION, KIND, PLURAL)
SNAPSHOTS: Final = Resource(API_VERSION, SNAPSHOT_KIND, SNAPSHOT_PLURAL)
STATEFUL_SETS: Final = Resource("apps/v1", "StatefulSet", "statefulsets")
PODS: Final = Resource("v1", "Pod", "pods")
CLAIMS: Final = Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SERVICES: Final = Resource("v1", "Service", "services")
CONFIG_MAPS: Final = Resource("v1", "ConfigMap", "configmaps")
SECRETS: Final = Resource("v1", "Secret", "secrets")
SERVICE_ACCOUNTS: Final = Resource("v1", "ServiceAccount", "serviceaccounts")
BUDGETS: Final = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
EVENTS: Final = Resource("v1", "Event", "events")
VOLUME_SNAPSHOTS: Final = Resource(
    "snapshot.storage.k8s.io/v1", "VolumeSnapshot", "volumesnapshots"
)
PERSISTENT_VOLUMES: Final = Resource(
    "v1", "PersistentVolume", "persistentvolumes", namespaced=False
)
STORAGE_CLASSES: Final = Resource(
    "storage.k8s.io/v1", "StorageClass", "storageclasses", namespaced=False
)
NODES: Final = Resource("v1", "Node", "nodes", namespaced=False)
ATTACHMENTS: Final = Resource(
    "storage.k8s.io/v1", "VolumeAttachment", "volumeattachments", namespaced=False
)

_BY_KIND: Final = {
    resource.kind: resource
    for resource in (
        STREAMS,
        SNAPSHOTS,
        VOLUME_SNAPSHOTS,
        STATEFUL_SETS,
        CLAIMS,
        PERSISTENT_VOLUMES,
        SERVICES,
        CONFIG_MAPS,
        SECRETS,
        SERVICE_ACCOUNTS,
        BUDGETS,
        EVENTS,
    )
}


def resource_of(wanted: Object) -> Resource:
    """The resource of an object the operator makes."""
    return _BY_KIND[wanted["kind"]]


def load_client() -> client.ApiClient:
    """A client with the pod's own credentials, or with KUBECONFIG outside of a cluster.

    Raises KubernetesError if there are neither.
    """
    configuration = client.Configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)
    except ConfigException:
        try:
            config.load_kube_config(client_configuration=configuration)
        except ConfigException as error:
            raise KubernetesError("NoCredentials", f"no access to a cluster: {error}") from error
    return client.ApiClient(configuration)


class KubernetesApi:
    """Reads and writes. `before_write` is called ahead of each write, and may raise to forbid it."""

    def __init__(self, api_client: client.ApiClient, before_write: Callable[[], None]) -> None:
        self._client = api_client
        self._before_write = before_write

    def serves(self, api_version: str) -> bool:
        """Whether the API server knows an API. Raises KubernetesError."""
        status, text = self._exchange("GET", f"/apis/{api_version}", [], None, _JSON)
        if status not in {200, 404}:
            message = _message(text)
            raise KubernetesError(refusal_reason(status, message), message)
        return status == 200

    def get(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        """One object, None if there is none of that name. Raises KubernetesError."""
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
        labels: str | None = None,
        fields: str | None = None,
    ) -> list[Object]:
        """All objects that a selector matches. Raises KubernetesError."""
        query = [("labelSelector", labels)] if labels else []
        query += [("fieldSelector", fields)] if fields else []
        items = self._call("GET", resource, resource.path(namespace), query)["items"]
        # In a list, the API server leaves out of each item what the list itself says.
        return [
            {"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in items
        ]

    def apply(self, wanted: Object, *, subresource: str | None = None) -> Object:
        """Server-side apply: own exactly the fields given. Raises KubernetesError."""
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

    def set_finalizers(self, resource: Resource, live: Object, finalizers: list[str]) -> None:
        """Replace the finalizers of this very object as it was read, whoever set them. Raises KubernetesError.

        It is "Conflict" if the object has changed since.
        """
        metadata = live["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        given = {key: metadata[key] for key in ("uid", "resourceVersion")}
        self._before_write()
        log.info("patch %s %s/%s", resource.kind, namespace, name)
        body = {"metadata": {**given, "finalizers": finalizers}}
        path = resource.path(namespace, name)
        self._call("PATCH", resource, path, body=body, content_type=_MERGE)

    def delete(
        self, resource: Resource, live: Object, *, orphan: bool = False, by_force: bool = False
    ) -> None:
        """Delete this very object, not one that has its name since. Raises KubernetesError.

        `orphan` leaves what it owns. `by_force` does not wait for a pod's node to say that it has ended.
        """
        metadata = live["metadata"]
        namespace, name = metadata.get("namespace"), metadata["name"]
        options: Object = {
            "preconditions": {"uid": metadata["uid"]},
            "propagationPolicy": "Orphan" if orphan else "Background",
        }
        if by_force:
            options["gracePeriodSeconds"] = 0
        self._before_write()
        log.info("delete %s %s%s", resource.kind, f"{namespace}/" if namespace else "", name)
        try:
            path = resource.path(namespace, name)
            self._call("DELETE", resource, path, body=options)
        except KubernetesError as error:
            if error.reason not in {"NotFound", "Conflict"}:  # gone, or another one by now
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
    ) -> Object:
        metrics.API_REQUESTS.labels(verb=method.lower(), resource=resource.plural).inc()
        status, text = self._exchange(method, path, query or [], body, content_type)
        if 200 <= status < 300:
            answer: Object = json.loads(text)
            return answer
        message = _message(text)
        raise KubernetesError(refusal_reason(status, message), message)

    def _exchange(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]],
        body: Object | None,
        content_type: str,
    ) -> tuple[int, bytes]:
        request = self._client.param_serialize(
            method,
            path,
            query_params=query,
            header_params={"Accept": "application/json", "Content-Type": content_type},
            # As text: the client knows no apply patch, and writes the other bodies itself.
            body=json.dumps(body) if content_type == _APPLY else body,
            auth_settings=["BearerToken"],
        )
        try:
            answer = self._client.call_api(
                *request, _request_timeout=(_CONNECT_SECONDS, _ANSWER_SECONDS)
            )
            return answer.status, answer.read()
        except (urllib3.exceptions.HTTPError, client.ApiException, OSError) as error:
            raise Unreachable(f"the API server does not answer: {error}") from error


def _message(text: bytes) -> str:
    """The API server's own words, or what stands in their place."""
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and answer.get("message"):
        return str(answer["message"])
    return text[:500].decode(errors="replace") or "no reason given"
