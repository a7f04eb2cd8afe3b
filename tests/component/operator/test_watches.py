"""kopf's watches of streams, against an HTTP server that refuses one namespace."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest
import yaml
from kubernetes.config import kube_config
from prometheus_client import REGISTRY

from dedupe_crds.openapi import PLURAL
from dedupe_crds.spec.stream import API_VERSION, KIND
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.kubernetes.watches import StreamWatches
from tests.support.patience import wait_for

REFUSED = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}
RESOURCES = {
    "kind": "APIResourceList",
    "groupVersion": API_VERSION,
    "resources": [
        {
            "name": PLURAL,
            "singularName": KIND.lower(),
            "kind": KIND,
            "namespaced": True,
            "verbs": ["list", "watch", "patch"],
        }
    ],
}


class Api(ThreadingHTTPServer):
    """One stream in each namespace, and no rights in those that are `forbidden`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Requests)
        self.forbidden = {"b"}
        self.ended = Event()


class Requests(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        parts = path.strip("/").split("/")
        if "namespaces" not in parts:
            self._answer(200, self._described(path))
        elif (namespace := parts[4]) in self.server.forbidden:
            self._answer(403, REFUSED)
        elif "watch=true" in query:
            self.send_response(200)
            self.end_headers()
            self.server.ended.wait()
        else:
            metadata = {"namespace": namespace, "name": "orders", "uid": namespace}
            stream = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {}}
            versioned = {"resourceVersion": "1"}
            self._answer(200, {"kind": f"{KIND}List", "items": [stream], "metadata": versioned})

    @staticmethod
    def _described(path: str) -> object:
        if path == f"/apis/{API_VERSION}":
            return RESOURCES
        if path == "/apis":
            group, _, version = API_VERSION.partition("/")
            known = {"groupVersion": API_VERSION, "version": version}
            group_of = {"name": group, "versions": [known], "preferredVersion": known}
            return {"kind": "APIGroupList", "groups": [group_of]}
        if path == "/api/v1":
            namespaces = {"name": "namespaces", "kind": "Namespace", "namespaced": False}
            verbs = {"verbs": ["list", "watch"], "singularName": "namespace"}
            return {"kind": "APIResourceList", "resources": [namespaces | verbs]}
        return {"kind": "APIVersions", "versions": ["v1"]}

    def _answer(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    server = Api()
    Thread(target=server.serve_forever, daemon=True).start()
    named = {"name": "api"}
    config = {
        "clusters": [{**named, "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{**named, "user": {"token": "t"}}],
        "contexts": [{**named, "context": {"cluster": "api", "user": "api"}}],
        "current-context": "api",
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    monkeypatch.setattr("dedupe_operator.kubernetes.watch_health._FIRST_SECONDS", 0.05)
    monkeypatch.setattr("dedupe_operator.kubernetes.watches._REFUSED_SECONDS", 1.0)
    yield server
    server.ended.set()
    server.shutdown()
    server.server_close()


def is_failing(namespace: str) -> float | None:
    labels = {"namespace": namespace, "resource": PLURAL}
    return REGISTRY.get_sample_value("dedupe_operator_watches_failing", labels)


def test_a_namespace_without_rights_stops_no_other_and_comes_back(api: Api) -> None:
    due: list[Key] = []
    watches = StreamWatches(due.append, ["a", "b"], identity="test")
    watches.start()
    wait_for(lambda: Key("a", "orders") in due, "the stream of a is due")
    wait_for(lambda: is_failing("b") == 1, "b is told")
    assert is_failing("a") == 0
    assert Key("b", "orders") not in due
    api.forbidden.clear()
    wait_for(lambda: Key("b", "orders") in due, "the stream of b is due")
    wait_for(lambda: is_failing("b") == 0, "b is no longer told")
    watches.stop()
