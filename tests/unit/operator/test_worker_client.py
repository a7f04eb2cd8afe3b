"""What workers say, and what becomes of those that do not."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import httpx
import pytest

from dedupe_crds.status.router import RouterInput
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.worker_client import WorkerClient, WorkerRefused
from tests.unit.operator.objects import pod, router_pod, router_status, worker_status
from tests.unit.operator.waits import until

GOOD = worker_status(0).model_dump_json(by_alias=True)


class FakePods(httpx.AsyncBaseTransport):
    """Answers by host; a host without an answer can't be reached."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, str]] = {}
        self.headers: dict[str, str] = {}
        self.content: bytes | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        assert request.url.port == 8080
        if request.method == "POST":
            assert request.headers["Authorization"] == "Bearer the-token"
            assert json.loads(request.content) == {"name": "s"}
        else:
            assert request.url.path == "/status"
        if request.url.host not in self.answers:
            raise httpx.ConnectTimeout("no answer")
        status, text = self.answers[request.url.host]
        content = text.encode() if self.content is None else self.content
        return httpx.Response(status, stream=httpx.ByteStream(content), headers=self.headers)


@pytest.fixture(name="pods")
def _pods() -> FakePods:
    return FakePods()


@pytest.fixture
def workers(pods: FakePods) -> Iterator[WorkerClient]:
    asking = WorkerClient(transport=pods)
    yield asking
    asking.close()


def test_each_worker_is_asked_at_its_pods_address(workers: WorkerClient, pods: FakePods) -> None:
    for partition, host in enumerate(["10.0.0.1", "fd00::2"]):
        text = worker_status(partition).model_dump_json(by_alias=True)
        pods.answers[host] = (200, text)
    asked = {0: pod(0, address="10.0.0.1"), 1: pod(1, address="fd00::2")}
    answers = workers.statuses(asked)
    assert answers == {0: worker_status(0), 1: worker_status(1)}


@pytest.mark.parametrize("answer", [None, (503, GOOD), (200, "not json"), (200, "{}")], ids=str)
def test_a_worker_that_gives_no_good_answer_has_none(
    workers: WorkerClient, pods: FakePods, answer: tuple[int, str] | None
) -> None:
    if answer:
        pods.answers["10.0.0.1"] = answer
    pods.answers["10.0.0.2"] = (200, worker_status(1).model_dump_json(by_alias=True))
    answers = workers.statuses({0: pod(0), 1: pod(1, address="10.0.0.2")})
    assert answers == {0: None, 1: worker_status(1)}


def test_a_pod_without_an_address_or_on_its_way_out_is_not_asked(
    workers: WorkerClient, pods: FakePods
) -> None:
    pods.answers["10.0.0.1"] = (200, worker_status(1).model_dump_json(by_alias=True))
    answers = workers.statuses({0: pod(0, address=None), 1: pod(1, dying=True)})
    assert answers == {0: None, 1: None}


def test_without_pods_nobody_is_asked(workers: WorkerClient) -> None:
    assert workers.statuses({}) == {}


def ask(workers: WorkerClient, *, dying: bool = False) -> object:
    return workers.post(pod(0, dying=dying), "/snapshots", {"name": "s"}, "the-token")


def test_what_is_asked_of_a_worker_carries_the_admin_token(
    workers: WorkerClient, pods: FakePods
) -> None:
    pods.answers["10.0.0.1"] = (202, '{"phase": "Running"}')
    assert ask(workers) == {"phase": "Running"}


@pytest.mark.parametrize(
    ("answer", "reason", "final"),
    [
        (None, "WorkerNotReachable", False),
        ((200, "not json"), "WorkerNotReachable", False),
        ((409, '{"title": "Busy", "description": "later"}'), "Busy", False),
        ((503, '{"title": "Busy"}'), "Busy", False),
        ((500, '{"title": "DiskFull", "description": "no room"}'), "DiskFull", False),
        ((401, '{"title": "Admin token needed"}'), "AdminTokenNeeded", False),
        ((400, '{"title": "400 Bad Request"}'), "400BadRequest", True),
        ((404, '{"title": "404 Not Found"}'), "404NotFound", True),
        ((500, "[]"), "WorkerRefused", False),
    ],
    ids=str,
)
def test_a_worker_that_refuses_says_why(
    workers: WorkerClient,
    pods: FakePods,
    answer: tuple[int, str] | None,
    reason: str,
    *,
    final: bool,
) -> None:
    if answer:
        pods.answers["10.0.0.1"] = answer
    with pytest.raises(WorkerRefused) as refused:
        ask(workers)
    assert (refused.value.reason, not refused.value.retriable) == (reason, final)


def test_a_worker_that_is_not_there_is_not_asked(workers: WorkerClient) -> None:
    with pytest.raises(WorkerRefused, match="no worker"):
        workers.post(None, "/snapshots", {"name": "s"}, "the-token")
    with pytest.raises(WorkerRefused, match="no worker"):
        ask(workers, dying=True)


def test_routers_are_asked_as_workers_are(workers: WorkerClient, pods: FakePods) -> None:
    pods.answers["10.0.0.1"] = (200, router_status(0).model_dump_json(by_alias=True))
    assert workers.router_statuses({0: router_pod(0)}) == {0: router_status(0)}
    pods.answers["10.0.0.1"] = (200, GOOD)
    assert workers.router_statuses({0: router_pod(0)}) == {0: None}


class Dripping(httpx.AsyncByteStream):
    """An answer that comes byte by byte, or without an end."""

    def __init__(self, part: bytes, *, pause: float) -> None:
        self.part, self.pause, self.closed, self.ends = part, pause, False, Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while not self.ends.is_set():
            yield self.part
            await asyncio.sleep(self.pause)

    async def aclose(self) -> None:
        self.closed = True


class EvilPods(httpx.AsyncBaseTransport):
    """Processes that a tenant may run in place of workers; a good one is at 10.0.0.1."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.streams: list[Dripping] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        self.asked.append(host)
        if host == "10.0.0.1":
            return httpx.Response(200, stream=httpx.ByteStream(GOOD.encode()))
        if host == "10.0.0.2":  # not even its headers come
            await asyncio.Event().wait()
        endless = host == "10.0.0.4"
        stream = Dripping(bytes(1 << 20) if endless else b" ", pause=0.0 if endless else 0.05)
        self.streams.append(stream)
        return httpx.Response(200, stream=stream)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(name="evil")
def _evil() -> EvilPods:
    return EvilPods()


@pytest.fixture
def asking(evil: EvilPods) -> Iterator[tuple[WorkerClient, Clock]]:
    clock = Clock()
    client = WorkerClient(transport=evil, clock=clock, answer_seconds=0.5)
    yield client, clock
    client.close()


def stream_of(*hosts: str) -> dict[int, Object]:
    """The pods of a stream at these addresses."""
    pods = {number: pod(number, address=host) for number, host in enumerate(hosts)}
    for number, each in pods.items():
        each["metadata"]["uid"] = f"{hosts[number]}/{number}"
    return pods


@pytest.mark.parametrize("host", ["10.0.0.2", "10.0.0.3", "10.0.0.4"])
def test_an_answer_that_does_not_end_is_given_up(
    asking: tuple[WorkerClient, Clock], evil: EvilPods, host: str
) -> None:
    client, _ = asking
    answers = client.statuses(stream_of("10.0.0.1", host))
    assert answers == {0: worker_status(0), 1: None}
    assert all(stream.closed for stream in evil.streams)


def test_many_streams_that_drip_hold_up_no_other(evil: EvilPods) -> None:
    client = WorkerClient(transport=evil, answer_seconds=120)
    with ThreadPoolExecutor(40) as threads:
        slow = [threads.submit(client.statuses, stream_of(*["10.0.0.3"] * 4)) for _ in range(40)]
        until(lambda: len(evil.streams) == 160)
        assert client.statuses(stream_of("10.0.0.1")) == {0: worker_status(0)}
        assert not any(each.done() for each in slow)
        for stream in evil.streams:
            stream.ends.set()
        assert all(set(each.result().values()) == {None} for each in slow)
    client.close()


def test_one_that_was_silent_is_not_asked_in_each_pass(
    asking: tuple[WorkerClient, Clock], evil: EvilPods
) -> None:
    client, clock = asking
    pods = stream_of("10.0.0.3", "10.0.0.1")
    asked = []
    for _ in range(12):
        evil.asked.clear()
        assert client.statuses(pods)[1] == worker_status(0)
        asked.append("10.0.0.3" in evil.asked)
        clock.now += 5.0
    assert asked[:2] == [True, True]
    assert sum(asked) == 4  # after 5, 10 and 20 s
    clock.now += 1_000
    evil.asked.clear()
    client.statuses(stream_of("10.0.0.3"))
    assert evil.asked == ["10.0.0.3"]


def test_a_command_that_is_answered_without_an_end_is_given_up(
    asking: tuple[WorkerClient, Clock],
) -> None:
    client, _ = asking
    with pytest.raises(WorkerRefused) as refused:
        client.post(pod(0, address="10.0.0.4"), "/snapshots", {"name": "s"}, "the-token")
    assert refused.value.reason == "WorkerNotReachable"


def test_the_largest_status_of_a_router_is_read(workers: WorkerClient, pods: FakePods) -> None:
    inputs = [
        RouterInput(
            topic=f"orders.of.a.region.with.a.rather.long.name.{number:05}", partitions=[0, 1, 2]
        )
        for number in range(11_000)
    ]
    status = router_status(0).model_copy(update={"inputs": inputs})
    text = status.model_dump_json(by_alias=True)
    assert len(text) > 1 << 20
    pods.answers["10.0.0.1"] = (200, text)
    assert workers.router_statuses({0: router_pod(0)}) == {0: status}


def test_answers_are_not_decompressed(workers: WorkerClient, pods: FakePods) -> None:
    pods.answers["10.0.0.1"] = (200, GOOD)
    pods.headers = {"Content-Encoding": "gzip"}
    pods.content = gzip.compress(GOOD.encode())
    assert workers.statuses({0: pod(0)}) == {0: None}
