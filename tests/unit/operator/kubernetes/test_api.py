"""Requests as the API server gets them, and its answers as the operator does."""

import json
from collections.abc import Iterator

import pytest
from kubernetes import client

from dedupe_operator.errors import KubernetesError, LostLeadership, Unreachable
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.event_reader import EventReader
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import (
    CLAIMS,
    EVENTS,
    PODS,
    SNAPSHOTS,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    STREAMS,
    Resource,
)
from tests.unit.operator.inline import FakeClock
from tests.unit.operator.json_server import Request, serving

POD: Object = {"metadata": {"name": "orders-0-0", "namespace": "shop", "uid": "uid-1"}}
SERVICE: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "orders-0", "namespace": "shop"},
    "spec": {"clusterIP": "None"},
}


class FakeApiServer:
    """Answers every request alike; `done` has the requests and what came before each write, in order."""

    def __init__(self) -> None:
        self.answer: tuple[int, object] = (200, {})
        self.done: list[Request | str] = []
        self.forbids = False

    def __call__(self, request: Request) -> tuple[int, object]:
        self.done.append(request)
        return self.answer

    def before_write(self) -> None:
        self.done.append("before_write")
        if self.forbids:
            raise LostLeadership("another one")

    @property
    def request(self) -> Request:
        (one,) = (one for one in self.done if isinstance(one, Request))
        return one


@pytest.fixture
def server() -> FakeApiServer:
    return FakeApiServer()


@pytest.fixture
def api(server: FakeApiServer) -> Iterator[KubernetesApi]:
    with serving(server) as address:
        configuration = client.Configuration(host=address)
        yield KubernetesApi(client.ApiClient(configuration), server.before_write)


def refused(server: FakeApiServer, status: int, message: str) -> None:
    server.answer = (status, {"kind": "Status", "message": message, "code": status})


@pytest.mark.parametrize(
    ("resource", "name", "path"),
    [
        (PODS, "a", "/api/v1/namespaces/shop/pods/a"),
        (STATEFUL_SETS, None, "/apis/apps/v1/namespaces/shop/statefulsets"),
        (STREAMS, "a", "/apis/dedupestream.io/v1alpha1/namespaces/shop/dedupestreams/a"),
        (STORAGE_CLASSES, "gp3", "/apis/storage.k8s.io/v1/storageclasses/gp3"),
        (PODS, "a/../b", "/api/v1/namespaces/shop/pods/a%2F..%2Fb"),
    ],
)
def test_every_resource_has_its_path(resource: Resource, name: str | None, path: str) -> None:
    assert resource.path("shop", name) == path


def test_an_object_is_read_by_its_name(api: KubernetesApi, server: FakeApiServer) -> None:
    server.answer = (200, POD)
    assert api.get(PODS, "shop", "orders-0-0") == POD
    assert (server.request.method, server.request.body) == ("GET", None)
    assert server.request.path == "/api/v1/namespaces/shop/pods/orders-0-0"


def test_an_object_that_is_not_there_is_none(api: KubernetesApi, server: FakeApiServer) -> None:
    refused(server, 404, 'pods "orders-0-0" not found')
    assert api.get(PODS, "shop", "orders-0-0") is None


def test_items_of_a_list_get_the_kind_the_list_has(
    api: KubernetesApi, server: FakeApiServer
) -> None:
    server.answer = (200, {"kind": "PodList", "items": [POD]})
    assert api.find(PODS, "shop", labels={"a": "b", "c": "d"}) == [
        {"apiVersion": "v1", "kind": "Pod", **POD},
    ]
    assert server.request.query == {"labelSelector": "a=b,c=d"}


def test_an_object_as_deep_as_the_api_server_takes_hides_no_other(
    api: KubernetesApi, server: FakeApiServer
) -> None:
    deep = '{"a":' * 9_900 + "1" + "}" * 9_900
    server.answer = (200, f'{{"items": [{{"spec": {deep}}}, {json.dumps(POD)}]}}')
    assert api.find(PODS, "shop")[1] == {"apiVersion": "v1", "kind": "Pod", **POD}
    assert json.loads(deep)  # as kopf reads it


def test_a_long_list_is_read_by_pages(api: KubernetesApi, server: FakeApiServer) -> None:
    server.answer = (200, {"metadata": {"resourceVersion": "7", "continue": "x"}, "items": [POD]})
    pages = api.pages(PODS, None, {"a": "b"})
    assert next(pages) == ([{"apiVersion": "v1", "kind": "Pod", **POD}], "7")
    assert server.request.query == {"labelSelector": "a=b", "limit": "500"}
    server.done.clear()
    server.answer = (200, {"metadata": {"resourceVersion": "7"}, "items": []})
    assert list(pages) == [([], "7")]
    assert server.request.query == {"labelSelector": "a=b", "limit": "500", "continue": "x"}


def test_events_are_selected_by_field(api: KubernetesApi, server: FakeApiServer) -> None:
    server.answer = (200, {"items": []})
    assert api.find(EVENTS, "shop", fields="involvedObject.uid=uid-1") == []
    assert server.request.query == {"fieldSelector": "involvedObject.uid=uid-1"}


def test_events_that_fill_a_namespace_are_not_read(
    api: KubernetesApi, server: FakeApiServer
) -> None:
    event = {"reason": "Failed", "message": "x" * 1024, "metadata": {"annotations": {"a": "b"}}}
    event["involvedObject"] = {"uid": "uid-1", "kind": "Pod"}
    reader = EventReader(api, clock := FakeClock())
    server.answer = (200, {"items": [event] * 20_000})
    assert reader.about(POD) == []
    clock.now += 60
    server.answer = (200, {"items": [event] * 2_000})
    found = reader.about(POD)
    assert (len(found), "metadata" in found[0]) == (1_000, False)


def test_an_apply_owns_its_fields_by_name_and_by_force(
    api: KubernetesApi, server: FakeApiServer
) -> None:
    server.answer = (200, {**SERVICE, "status": {}})
    assert api.apply(SERVICE) == {**SERVICE, "status": {}}
    request = server.request
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/shop/services/orders-0")
    assert request.content_type == "application/apply-patch+yaml"
    assert request.query == {"fieldManager": "dedupestream-operator", "force": "true"}
    assert request.body == SERVICE


def test_a_status_is_applied_to_its_subresource(api: KubernetesApi, server: FakeApiServer) -> None:
    api.apply({"kind": "DedupeStream", "metadata": SERVICE["metadata"]}, subresource="status")
    assert server.request.path.endswith("/dedupestreams/orders-0/status")


def test_what_belongs_to_no_namespace_is_applied_by_its_name(
    api: KubernetesApi, server: FakeApiServer
) -> None:
    api.apply({"kind": "PersistentVolume", "metadata": {"name": "orders-0-2"}})
    assert server.request.path == "/api/v1/persistentvolumes/orders-0-2"


def test_an_object_is_created_as_json(api: KubernetesApi, server: FakeApiServer) -> None:
    event: Object = {"kind": "Event", "metadata": {"generateName": "a.", "namespace": "shop"}}
    api.create(event)
    request = server.request
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/shop/events")
    assert request.content_type == "application/json"
    assert request.body == event


@pytest.mark.parametrize(("orphan", "policy"), [(False, "Background"), (True, "Orphan")])
def test_a_delete_is_of_this_very_object(
    api: KubernetesApi, server: FakeApiServer, policy: str, *, orphan: bool
) -> None:
    api.delete(PODS, POD, orphan=orphan)
    request = server.request
    assert (request.method, request.path) == ("DELETE", "/api/v1/namespaces/shop/pods/orders-0-0")
    assert request.body == {"preconditions": {"uid": "uid-1"}, "propagationPolicy": policy}


@pytest.mark.parametrize("status", [404, 409])
def test_what_is_gone_or_another_by_now_need_not_be_deleted(
    api: KubernetesApi, server: FakeApiServer, status: int
) -> None:
    refused(server, status, "the UID in the precondition does not match")
    api.delete(CLAIMS, POD)


def test_a_delete_that_is_not_allowed_is_an_error(
    api: KubernetesApi, server: FakeApiServer
) -> None:
    refused(server, 403, "User cannot delete resource")
    with pytest.raises(KubernetesError, match="cannot delete"):
        api.delete(CLAIMS, POD)


def test_leadership_is_checked_right_before_every_write_and_no_read(
    api: KubernetesApi, server: FakeApiServer
) -> None:
    server.answer = (200, {"items": []})
    api.get(PODS, "shop", "a")
    api.find(PODS, "shop")
    api.apply(SERVICE)
    api.create(SERVICE)
    api.delete(PODS, POD)
    order = [one if isinstance(one, str) else one.method for one in server.done]
    assert order == [
        "GET",
        "GET",
        *("before_write", "PATCH"),
        *("before_write", "POST"),
        *("before_write", "DELETE"),
    ]


def test_without_leadership_nothing_is_written(api: KubernetesApi, server: FakeApiServer) -> None:
    server.forbids = True
    for write in (
        lambda: api.apply(SERVICE),
        lambda: api.create(SERVICE),
        lambda: api.delete(PODS, POD),
    ):
        with pytest.raises(LostLeadership):
            write()
    assert server.done == ["before_write"] * 3


@pytest.mark.parametrize(
    ("status", "message", "reason"),
    [
        (403, "exceeded quota: small", "QuotaExceeded"),
        (422, "spec: Forbidden: updates to statefulset spec", "FieldImmutable"),
        (401, "Unauthorized", "Unauthorized"),
        (500, "etcd is away", "ApiServerError"),
    ],
)
def test_a_refusal_is_told_in_the_servers_words_by_its_name(
    api: KubernetesApi, server: FakeApiServer, status: int, message: str, reason: str
) -> None:
    refused(server, status, message)
    with pytest.raises(KubernetesError) as told:
        api.apply(SERVICE)
    assert (told.value.reason, str(told.value)) == (reason, message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<html>gateway timeout</html>", "<html>gateway timeout</html>"),
        ("", "no reason given"),
        ("[1]", "[1]"),
        ('{"code": 504}', '{"code": 504}'),
    ],
)
def test_an_answer_that_is_not_the_api_servers_is_told_too(
    api: KubernetesApi, server: FakeApiServer, text: str, message: str
) -> None:
    server.answer = (504, text)
    with pytest.raises(KubernetesError) as told:
        api.get(PODS, "shop", "a")
    assert str(told.value) == message


def test_an_api_server_that_is_away_is_unreachable() -> None:
    configuration = client.Configuration(host="http://127.0.0.1:1")
    configuration.retries = False
    api = KubernetesApi(client.ApiClient(configuration), lambda: None)
    with pytest.raises(Unreachable, match="does not answer"):
        api.get(PODS, "shop", "a")


@pytest.mark.parametrize(("status", "known"), [(200, True), (404, False)])
def test_it_tells_whether_an_api_is_there(
    api: KubernetesApi, server: FakeApiServer, status: int, *, known: bool
) -> None:
    refused(server, status, "words")
    assert api.serves("dedupestream.io/v1alpha1") is known
    assert server.request.path == "/apis/dedupestream.io/v1alpha1"


def test_an_api_that_may_not_be_asked_about_is_an_error(
    api: KubernetesApi, server: FakeApiServer
) -> None:
    refused(server, 403, "no")
    with pytest.raises(KubernetesError):
        api.serves("dedupestream.io/v1alpha1")


def test_finalizers_are_replaced_in_the_object_as_it_was_read(
    api: KubernetesApi, server: FakeApiServer
) -> None:
    server.answer = (200, {})
    metadata = {"namespace": "shop", "name": "s", "uid": "uid-1", "resourceVersion": "7"}
    api.patch_metadata(SNAPSHOTS, {"metadata": metadata}, {"finalizers": ["a"]})
    assert (server.request.method, server.request.content_type) == (
        "PATCH",
        "application/merge-patch+json",
    )
    assert server.request.path.endswith("/namespaces/shop/dedupesnapshots/s")
    assert server.request.body == {
        "metadata": {"uid": "uid-1", "resourceVersion": "7", "finalizers": ["a"]}
    }
