"""Objects that are read from memory, and how old they may be."""

from collections.abc import Callable, Iterator
from queue import Queue

import pytest
from kubernetes import client

from dedupe_crds.annotations import STREAM
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import ReadLive
from dedupe_operator.kubernetes.cached_api import CachedApi
from dedupe_operator.kubernetes.names import OURS, Object
from dedupe_operator.kubernetes.resources import EVENTS, PODS, SECRETS, SERVICES
from dedupe_operator.kubernetes.watch_cache import WatchCache
from tests.support.patience import HANG_SECONDS
from tests.unit.operator.inline import FakeClock
from tests.unit.operator.kubernetes.api_server import ApiServer
from tests.unit.operator.waits import until

Cached = tuple[WatchCache, ApiServer, Queue[Object]]


def labels(stream: str = "orders") -> dict[str, str]:
    return {**OURS, STREAM: stream}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cached]:
    """A cache that watches a server with one pod."""
    monkeypatch.setattr("dedupe_operator.kubernetes.watch_health._FIRST_SECONDS", 0.01)
    server, changed = ApiServer(), Queue[Object]()
    server.put("a", labels=labels())
    cache = WatchCache(server, PODS, None, OURS, changed.put)
    cache.start()
    server.watches.get(timeout=HANG_SECONDS)
    assert changed.get(timeout=HANG_SECONDS)["metadata"]["name"] == "a"
    yield cache, server, changed
    cache.stop()
    server.end_watches()


def names(cache: WatchCache, stream: str = "orders") -> list[str]:
    return [each["metadata"]["name"] for each in cache.find("shop", labels(stream))]


def test_objects_are_found_by_their_labels_and_changes_are_told(started: Cached) -> None:
    cache, server, changed = started
    server.put("b", labels=labels())
    server.put("c", labels=labels("others"))
    server.put("d", labels={STREAM: "orders"})
    for name in ("b", "c"):
        assert changed.get(timeout=HANG_SECONDS)["metadata"]["name"] == name
    assert names(cache) == ["a", "b"]
    assert cache.find("other", labels()) == []
    assert [each["metadata"]["name"] for each in cache.find("shop", {})] == ["a", "b", "c"]
    assert cache.find("other", {}) == []
    server.put("b", labels=labels("others"), status={"phase": "Running"})
    assert changed.get(timeout=HANG_SECONDS)["metadata"]["name"] == "b"
    assert names(cache) == ["a"]
    assert names(cache, "others") == ["b", "c"]
    server.remove("c")
    assert changed.get(timeout=HANG_SECONDS)["metadata"]["name"] == "c"
    assert names(cache, "others") == ["b"]
    assert changed.empty()


def test_what_a_watch_has_missed_the_next_list_finds(started: Cached) -> None:
    """A deletion too, and an object that was made again."""
    cache, server, changed = started
    server.put("b", labels=labels())
    changed.get(timeout=HANG_SECONDS)
    server.remove("a", sent=False)
    server.put("b", labels=labels(), uid="another", sent=False)
    server.put("c", labels=labels(), sent=False)
    assert names(cache) == ["a", "b"]
    server.end_watches()
    told = {changed.get(timeout=HANG_SECONDS)["metadata"]["name"] for _ in range(3)}
    assert told == {"a", "b", "c"}
    assert names(cache) == ["b", "c"]
    found = cache.get("shop", "b")
    assert found is not None
    assert found["metadata"]["uid"] == "another"


def test_what_was_written_is_not_replaced_by_what_is_older(started: Cached) -> None:
    cache, server, changed = started
    old = server.put("a", labels=labels(), spec={"n": 1}, sent=False)
    new = server.put("a", labels=labels(), spec={"n": 2}, sent=False)
    cache.note(new)
    server.send("MODIFIED", old)
    changed.get(timeout=HANG_SECONDS)
    assert [each["spec"] for each in cache.find("shop", labels())] == [{"n": 2}]
    made = server.put("b", labels=labels(), uid="first", sent=False)
    cache.note(server.put("b", labels=labels(), uid="second", sent=False))
    server.send("DELETED", made)
    changed.get(timeout=HANG_SECONDS)
    assert names(cache) == ["a", "b"], "the one that was deleted is another"


def test_an_object_that_was_written_while_the_list_ran_stays(
    started: Cached, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, server, changed = started
    listing = server.pages

    def slowly(*what: object) -> Iterator[tuple[list[Object], str]]:
        pages = list(listing(*what))  # type: ignore[arg-type] # as it was called
        cache.note(server.put("b", labels=labels(), sent=False))
        yield from pages

    monkeypatch.setattr(server, "pages", slowly)
    server.watches = Queue()
    server.end_watches()
    server.watches.get(timeout=HANG_SECONDS)
    assert names(cache) == ["a", "b"]
    assert changed.empty()


def test_an_answer_that_comes_after_the_deletion_brings_nothing_back(started: Cached) -> None:
    cache, server, changed = started
    written = server.put("b", labels=labels())
    server.remove("b")
    for _ in range(2):
        changed.get(timeout=HANG_SECONDS)
    cache.note(written)
    assert names(cache) == ["a"]


def test_a_server_that_went_back_is_followed(started: Cached) -> None:
    """Its etcd was restored from a backup: all versions are older than those seen."""
    cache, server, changed = started
    server.put("b", labels=labels())
    server.put("a", labels=labels(), spec={"n": 2})
    for _ in range(2):
        changed.get(timeout=HANG_SECONDS)
    server.go_back()
    server.put("a", labels=labels(), spec={"n": 1}, sent=False)
    server.remove("b", sent=False)
    server.end_watches()
    until(lambda: names(cache) == ["a"])
    assert cache.find("shop", labels())[0]["spec"] == {"n": 1}


def test_what_no_list_has_shown_for_long_is_not_read_from_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dedupe_operator.kubernetes.watch_health._FIRST_SECONDS", 0.01)
    server, clock = ApiServer(), FakeClock()
    server.put("a", labels=labels())
    cache = WatchCache(server, PODS, None, OURS, lambda _: None, clock=clock)
    cache.start()
    server.watches.get(timeout=HANG_SECONDS)
    clock.now += 250
    assert cache.covers("shop", labels())
    assert cache.get("shop", "a") is not None
    server.fails = KubernetesError("Forbidden", "pods may not be listed")
    server.end_watches()
    clock.now += 60
    assert not cache.covers("shop", labels())
    assert cache.get("shop", "a") is None
    server.fails = None
    until(lambda: cache.covers("shop", labels()))
    cache.stop()
    server.end_watches()


def test_a_server_that_does_not_answer_is_asked_until_it_does(started: Cached) -> None:
    cache, server, _ = started
    server.fails = KubernetesError("ApiServerUnreachable", "no answer")
    before = server.lists
    server.end_watches()
    until(lambda: server.lists > before + 3)
    assert names(cache) == ["a"], "what is known is not forgotten"
    server.put("b", labels=labels(), sent=False)
    server.fails = None
    until(lambda: names(cache) == ["a", "b"])


def test_before_the_first_list_nothing_is_covered() -> None:
    cache = WatchCache(ApiServer(), PODS, "shop", OURS, lambda _: None)
    assert not cache.covers("shop", labels())
    cache.note({"kind": "Pod", "metadata": {"name": "a", "namespace": "shop", "labels": OURS}})
    assert cache.get("shop", "a") is None


class Server(CachedApi):
    """A client of which tests know what it asks."""

    def __init__(self, calls: list[tuple[str, str]]) -> None:
        super().__init__(client.ApiClient(client.Configuration()), lambda: None, ["shop"])
        self.calls = calls
        self.server = ApiServer()
        self.pages = self.server.pages  # type: ignore[method-assign] # no HTTP
        self.watch = self.server.watch  # type: ignore[method-assign] # no HTTP

    def _call(self, method: str, *what: object, **_: object) -> Object:
        self.calls.append((method, str(what[1])))
        if method == "GET" and str(what[1]).endswith("s"):
            return {"items": []}
        if method == "GET":
            raise KubernetesError("NotFound", "it is not there")
        return {**self.server.put("b", labels=labels(), sent=False), "kind": "Service"}


@pytest.fixture
def api() -> Iterator[Server]:
    made = Server([])
    yield made
    made.stop()
    made.server.end_watches()


@pytest.fixture
def ready(api: Server) -> Server:
    api.server.put("a", labels=labels())
    api.start(lambda _: None)
    for _ in range(8):
        api.server.watches.get(timeout=HANG_SECONDS)
    return api


def find(api: CachedApi) -> list[str]:
    found = api.find(PODS, "shop", labels=labels())
    return [each["metadata"]["name"] for each in found]


def test_reads_are_live_unless_a_thread_asks_for_memory(ready: Server) -> None:
    assert find(ready) == []
    assert len(ready.calls) == 1
    with ready.from_memory():
        assert find(ready) == ["a"]
        assert ready.get(PODS, "shop", "a") is not None
    assert len(ready.calls) == 1
    assert find(ready) == []


@pytest.mark.parametrize(
    "read",
    [
        lambda api: api.find(PODS, "shop", labels={STREAM: "orders"}),
        lambda api: api.find(PODS, "shop"),
        lambda api: api.find(PODS, "other", labels=labels()),
        lambda api: api.find(EVENTS, "shop", fields="involvedObject.uid=1"),
        lambda api: api.get(SECRETS, "shop", "kafka"),
        lambda api: api.get(PODS, "shop", "stray"),
    ],
    ids=["other labels", "no labels", "elsewhere", "events", "secret", "absent"],
)
def test_what_memory_may_lack_is_read_live(
    ready: Server, read: Callable[[CachedApi], object]
) -> None:
    with ready.from_memory():
        assert not read(ready)
    assert len(ready.calls) == 1


def test_nothing_is_deleted_from_memory(ready: Server) -> None:
    (live,) = ready.server.objects.values()
    with ready.from_memory(), pytest.raises(ReadLive):
        ready.delete(PODS, live)
    assert ready.calls == []
    ready.require_live()
    ready.delete(PODS, live)
    assert ready.calls == [("DELETE", "/api/v1/namespaces/shop/pods/a")]


def test_what_was_just_written_is_read(ready: Server) -> None:
    wanted = {"kind": "Service", "metadata": {"namespace": "shop", "name": "b"}}
    ready.apply(wanted)
    with ready.from_memory():
        found = ready.find(SERVICES, "shop", labels=labels())
    assert "b" in [each["metadata"]["name"] for each in found]


def test_the_stream_of_each_change_is_due(api: Server) -> None:
    due: Queue[Key] = Queue()
    api.start(due.put)
    for _ in range(8):
        api.server.watches.get(timeout=HANG_SECONDS)
    api.server.put("a", labels=labels("visits"))
    assert due.get(timeout=HANG_SECONDS) == Key("shop", "visits")
