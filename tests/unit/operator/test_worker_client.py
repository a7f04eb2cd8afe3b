"""What workers say, and what becomes of those that do not."""

import json
from collections.abc import Iterator

import httpx
import pytest

from dedupe_operator.worker_client import WorkerClient, WorkerRefused
from tests.unit.operator.objects import pod, router_pod, router_status, worker_status

GOOD = worker_status(0).model_dump_json(by_alias=True)


class FakePods(httpx.BaseTransport):
    """Answers by host; a host without an answer can't be reached."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, str]] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert request.url.port == 8080
        if request.method == "POST":
            assert request.headers["Authorization"] == "Bearer the-token"
            assert json.loads(request.content) == {"name": "s"}
        else:
            assert request.url.path == "/status"
        if request.url.host not in self.answers:
            raise httpx.ConnectTimeout("no answer")
        status, text = self.answers[request.url.host]
        return httpx.Response(status, text=text)


@pytest.fixture(name="pods")
def _pods() -> FakePods:
    return FakePods()


@pytest.fixture
def workers(pods: FakePods) -> Iterator[WorkerClient]:
    asking = WorkerClient()
    asking._http = httpx.Client(transport=pods)  # noqa: SLF001 # its seam
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
