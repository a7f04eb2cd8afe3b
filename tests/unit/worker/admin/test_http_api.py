"""The worker's HTTP interface, as callers see it."""

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import falcon
import pytest
from falcon import testing
from prometheus_client.parser import text_string_to_metric_families

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.worker import (
    CheckpointStatus,
    ComparisonStatus,
    IdStatus,
    OutputStatus,
    Phase,
    ReconcileStatus,
    UploadStatus,
    WorkerStatus,
)
from dedupe_httpd import probes
from dedupe_worker.admin import http_api
from dedupe_worker.admin.commands import Command, CommandQueue
from dedupe_worker.admin.http_api import make_app, make_probe_app, read_token
from dedupe_worker.admin.metrics import make_registry
from dedupe_worker.admin.reconcile_requests import ReconcileRequests
from dedupe_worker.errors import DiskFull
from dedupe_worker.status import Degraded, WorkerState
from tests.support.patience import HANG_SECONDS
from tests.unit.crds.manifests import MINIMAL

TOKEN = "correct-horse"  # noqa: S105 # nobody's
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
MADE = CheckpointStatus(
    path="/state/checkpoints/1",
    created=datetime(2026, 11, 21, tzinfo=UTC),
    input_offset=7,
    output_position=9,
    keys=5,
)


class Desk:
    """Answers the commands, in place of the loop."""

    def __init__(self) -> None:
        self.made: CheckpointStatus | None = MADE
        self.error: Exception | None = None
        self.forgotten: list[bytes] = []

    def checkpoint(self) -> CheckpointStatus | None:
        if self.error:
            raise self.error
        return self.made

    def snapshot(self, name: str) -> UploadStatus | None:
        raise AssertionError(f"snapshot {name}: there is no bucket")

    def lookup(self, raw_ids: list[bytes]) -> list[IdStatus]:
        return [IdStatus(id=raw.decode(), known=raw == b"a") for raw in raw_ids]

    def forget(self, raw_ids: list[bytes]) -> int:
        self.forgotten += raw_ids
        return len(raw_ids)


@pytest.fixture
def worker_state() -> WorkerState:
    return WorkerState(DedupeStream.model_validate(MINIMAL), 3)


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def commands(desk: Desk) -> Iterator[CommandQueue]:
    """Commands that are carried out by another thread, as in the worker."""
    queue, stop = CommandQueue(), Event()

    def run() -> None:
        while not stop.wait(0.001):
            queue.run_waiting(desk)

    thread = Thread(target=run)
    thread.start()
    yield queue
    stop.set()
    thread.join()


def client_of(
    worker_state: WorkerState, commands: CommandQueue, token: str | None
) -> testing.TestClient:
    requests = ReconcileRequests(worker_state, Path("never-written"))
    return testing.TestClient(
        make_app(worker_state, commands, make_registry(worker_state), token, requests=requests)
    )


@pytest.fixture
def client(worker_state: WorkerState, commands: CommandQueue) -> testing.TestClient:
    return client_of(worker_state, commands, TOKEN)


ADMIN_CALLS = pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/checkpoint", None),
        ("/forget", {"ids": ["a"]}),
        ("/lookup", {"ids": ["a"]}),
        ("/reconcile", {"request": "now"}),
    ],
)


@ADMIN_CALLS
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": TOKEN},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer \xff"},
        {"X-Admin-Token": ""},
        {"X-Admin-Token": f"{TOKEN}x"},
        {"X-Admin-Token": f"{TOKEN}x", "Authorization": f"Bearer {TOKEN}"},
    ],
)
def test_an_admin_call_needs_the_token(
    client: testing.TestClient, desk: Desk, path: str, body: object, headers: dict[str, str]
) -> None:
    answer = client.simulate_post(path, json=body, headers=headers)
    assert answer.status == falcon.HTTP_401
    assert TOKEN not in answer.text
    assert desk.forgotten == []


@ADMIN_CALLS
def test_without_a_token_admin_calls_are_off(
    worker_state: WorkerState, commands: CommandQueue, path: str, body: object
) -> None:
    for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer None"}):
        answer = client_of(worker_state, commands, None).simulate_post(
            path, json=body, headers=headers
        )
        assert answer.status == falcon.HTTP_403
        assert "--admin-token-file" in answer.text


@ADMIN_CALLS
def test_the_right_token_is_let_in(client: testing.TestClient, path: str, body: object) -> None:
    answer = client.simulate_post(path, json=body, headers=AUTHORIZED)
    assert answer.status in {falcon.HTTP_200, falcon.HTTP_202}


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/status"])
def test_reading_needs_no_token(client: testing.TestClient, path: str) -> None:
    assert client.simulate_get(path).status_code in {200, 503}


def test_a_token_file_that_is_empty_or_absent_gives_none(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "empty").write_text("\n")
    assert read_token(tmp_path / "token") == TOKEN
    assert read_token(tmp_path / "empty") is None
    assert read_token(None) is None


@pytest.mark.parametrize("phase", Phase)
def test_it_is_ready_only_while_running(
    worker_state: WorkerState, client: testing.TestClient, phase: Phase
) -> None:
    worker_state.set_phase(phase)
    answer = client.simulate_get("/readyz")
    assert answer.status_code == (200 if phase is Phase.RUNNING else 503)
    assert answer.json == {
        "ready": phase is Phase.RUNNING,
        "phase": phase.value,
        "reason": None,
        "message": None,
        "degraded": [],
    }


def test_a_degraded_reason_is_beside_readiness(
    worker_state: WorkerState, client: testing.TestClient
) -> None:
    worker_state.set_phase(Phase.RUNNING)
    worker_state.degradations.record(Degraded.MISSING_IDS, "3 records have no id", 3)
    answer = client.simulate_get("/readyz")
    assert answer.status == falcon.HTTP_200
    (shown,) = answer.json["degraded"]
    assert (shown["reason"], shown["count"]) == ("MissingIds", 3)
    assert shown["message"] == "3 records have no id"
    metric = 'dedupe_degraded{partition="3",reason="MissingIds",stream="default/orders"} 1.0'
    assert metric in client.simulate_get("/metrics").text


def test_what_keeps_it_from_its_work_is_named(
    worker_state: WorkerState, client: testing.TestClient
) -> None:
    worker_state.set_phase(Phase.RUNNING)
    worker_state.report_failure(DiskFull("the volume is full"))
    answer = client.simulate_get("/readyz")
    assert answer.status == falcon.HTTP_503
    assert answer.json["reason"] == "DiskFull"
    assert answer.json["message"] == "the volume is full"


def test_it_is_healthy_while_the_loop_goes_round(
    worker_state: WorkerState, client: testing.TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker_state.report_failure(DiskFull("the volume is full"))
    assert client.simulate_get("/healthz").status == falcon.HTTP_200
    monkeypatch.setattr(probes, "_HEALTHY_SECONDS", -1.0)
    assert client.simulate_get("/healthz").status == falcon.HTTP_503


def test_the_status_is_a_worker_status(
    worker_state: WorkerState, client: testing.TestClient
) -> None:
    worker_state.set_phase(Phase.RUNNING)
    worker_state.tally.consumed, worker_state.tally.duplicates = 10, 4
    answer = client.simulate_get("/status")
    assert answer.headers["content-type"] == falcon.MEDIA_JSON
    found = WorkerStatus.model_validate_json(answer.text)
    assert (found.stream, found.partition, found.ready) == ("default/orders", 3, True)
    assert (found.counts.consumed, found.counts.duplicates) == (10, 4)
    assert "startedAt" in answer.json


def test_a_checkpoint_is_answered_with_what_was_made(client: testing.TestClient) -> None:
    answer = client.simulate_post("/checkpoint", headers=AUTHORIZED)
    assert CheckpointStatus.model_validate_json(answer.text) == MADE


def test_an_empty_store_is_told_apart_from_a_failure(
    client: testing.TestClient, desk: Desk
) -> None:
    desk.made = None
    assert client.simulate_post("/checkpoint", headers=AUTHORIZED).status == falcon.HTTP_409
    desk.error = DiskFull("no room for it")
    answer = client.simulate_post("/checkpoint", headers=AUTHORIZED)
    assert answer.status == falcon.HTTP_500
    assert answer.json == {"title": "DiskFull", "description": "no room for it"}


def test_a_loop_that_does_not_come_to_it_is_busy(
    worker_state: WorkerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_api, "_COMMAND_SECONDS", 0.01)
    answer = client_of(worker_state, CommandQueue(), TOKEN).simulate_post(
        "/checkpoint", headers=AUTHORIZED
    )
    assert answer.status == falcon.HTTP_503
    assert answer.headers["retry-after"] == "5"


def test_a_lookup_answers_in_the_order_of_the_ids(client: testing.TestClient) -> None:
    answer = client.simulate_post("/lookup", json={"ids": ["ü", "a"]}, headers=AUTHORIZED)
    assert [(one["id"], one["known"]) for one in answer.json["ids"]] == [("ü", False), ("a", True)]


def test_the_token_may_come_in_a_header_that_proxies_leave_alone(
    client: testing.TestClient, desk: Desk
) -> None:
    answer = client.simulate_post("/forget", json={"ids": ["a"]}, headers={"X-Admin-Token": TOKEN})
    assert answer.json["forgotten"] == 1
    assert desk.forgotten == [b"a"]


def test_ids_are_forgotten_by_their_bytes(client: testing.TestClient, desk: Desk) -> None:
    answer = client.simulate_post("/forget", json={"ids": ["a", "ü"]}, headers=AUTHORIZED)
    assert answer.json["forgotten"] == 2
    assert "a rebuild of the store" in answer.json["note"]
    assert desk.forgotten == [b"a", "ü".encode()]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"{}",
        b'{"ids": []}',
        b'{"ids": "a"}',
        b'{"ids": [1]}',
        b'{"ids": [""]}',
        b'{"ids": ["\\ud800"]}',
        b"[" * 100_000,
        json.dumps({"ids": ["a"] * 1001}).encode(),
    ],
    ids=lambda body: repr(body)[:24],
)
def test_what_names_no_ids_is_refused(client: testing.TestClient, desk: Desk, body: bytes) -> None:
    answer = client.simulate_post("/forget", body=body, headers=AUTHORIZED)
    assert answer.status == falcon.HTTP_400
    assert desk.forgotten == []


class AnnouncedQueue(CommandQueue):
    """Commands of which a test sees that the first one is in the queue."""

    def __init__(self) -> None:
        super().__init__()
        self.submitted = Event()

    def submit(self, command: Command) -> "Future[Any]":
        """Queue a command, and say so."""
        result = super().submit(command)
        self.submitted.set()
        return result


def test_admin_calls_that_wait_leave_threads_for_reading(
    worker_state: WorkerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_api, "_ADMIN_CALLS", 1)
    commands = AnnouncedQueue()
    client = client_of(worker_state, commands, TOKEN)

    def ask() -> int:
        return int(client.simulate_post("/checkpoint", headers=AUTHORIZED).status_code)

    with ThreadPoolExecutor(1) as caller:
        waiting = caller.submit(ask)
        assert commands.submitted.wait(HANG_SECONDS), "the first call does not wait"
        busy = client.simulate_post("/reconcile", json={}, headers=AUTHORIZED)
        assert (busy.status, busy.json["title"]) == (falcon.HTTP_503, "Busy")
        assert client.simulate_get("/status").status == falcon.HTTP_200
        commands.run_waiting(Desk())
        assert waiting.result(HANG_SECONDS) == 200
    assert ask_unauthorized(client) == [401] * 3
    assert client.simulate_post("/reconcile", json={}, headers=AUTHORIZED).status_code == 400


def ask_unauthorized(client: testing.TestClient) -> list[int]:
    return [client.simulate_post("/checkpoint").status_code for _ in range(3)]


def test_probes_of_their_own_answer_nothing_else(worker_state: WorkerState) -> None:
    worker_state.set_phase(Phase.RUNNING)
    probes = testing.TestClient(make_probe_app(worker_state))
    assert probes.simulate_get("/healthz").status == falcon.HTTP_200
    assert probes.simulate_get("/readyz").json["ready"]
    for path in ("/metrics", "/status", "/lookup", "/snapshots"):
        assert probes.simulate_get(path).status == falcon.HTTP_404
    assert probes.simulate_post("/readyz").status == falcon.HTTP_405


UNITS = {"seconds", "bytes", "ids", "generations", "messages", "offset", "offsets", "position"}
UNITS |= {"records", "transactions", "errors", "sessions"}
STATES = {"ready", "phase", "problem", "degraded", "window_healthy", "window_truncated"}


def test_metrics_can_be_parsed_and_their_names_carry_units(
    worker_state: WorkerState, client: testing.TestClient
) -> None:
    worker_state.tally.consumed, worker_state.tally.expired_offsets = 10, 2
    worker_state.stage_seconds["commit"] = 1.5
    worker_state.input = worker_state.input.model_copy(update={"lag_messages": 7})
    worker_state.output = OutputStatus(topic="orders-clean", position=9)
    worker_state.reconcile = ReconcileStatus(reason="Tail", records=1, remaining=2, seconds=3.0)
    worker_state.checkpoint = MADE
    worker_state.report_failure(DiskFull("the volume is full"))
    families = {
        each.name: each
        for each in text_string_to_metric_families(client.simulate_get("/metrics").text)
    }
    ours = {name: each for name, each in families.items() if name.startswith("dedupe_")}
    for name, family in ours.items():
        words = name.removeprefix("dedupe_").split("_")
        if family.type == "counter":  # dedupe_records_consumed_total
            assert UNITS & set(words), name
        else:
            assert words[-1] in UNITS or "_".join(words) in STATES, name
        assert family.documentation.endswith("."), name
        for sample in family.samples:
            assert sample.labels["stream"] == "default/orders"
            assert sample.labels["partition"] == "3"

    def value(name: str, **labels: str) -> float:
        found = [
            sample.value
            for family in families.values()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        assert len(found) == 1, name
        return found[0]

    assert value("dedupe_records_consumed_total") == 10
    assert value("dedupe_input_offsets_expired_total") == 2
    assert value("dedupe_stage_seconds_total", stage="commit") == 1.5
    assert value("dedupe_problem", reason="DiskFull") == 1
    assert value("dedupe_errors_total", reason="DiskFull") == 1
    assert value("dedupe_phase", phase="Failed") == 1
    assert value("dedupe_phase", phase="Running") == 0
    assert value("dedupe_ready") == 0
    assert value("dedupe_lag_messages") == 7
    assert "process_resident_memory_bytes" in families


def reconcile(client: testing.TestClient, body: object) -> testing.Result:
    return client.simulate_post("/reconcile", json=body, headers=AUTHORIZED)


def test_a_reconcile_is_taken_in_once(
    worker_state: WorkerState, client: testing.TestClient
) -> None:
    first = reconcile(client, {"request": "now", "full": True})
    assert first.status == falcon.HTTP_202
    assert ComparisonStatus.model_validate(first.json) == worker_state.comparison
    assert worker_state.comparison == ComparisonStatus(request="now", full=True)
    assert reconcile(client, {"request": "now"}).json == first.json

    other = reconcile(client, {"request": "later"})
    assert other.status == falcon.HTTP_409
    assert other.json["title"] == "Busy"
    worker_state.comparison = worker_state.comparison.model_copy(update={"done": True, "added": 7})
    assert reconcile(client, {"request": "now"}).json["added"] == 7
    assert reconcile(client, {"request": "later"}).json["full"] is False
    assert client.simulate_get("/status").json["comparison"]["request"] == "later"


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"request": ""},
        {"request": 1},
        {"request": "x" * 101},
        {"request": "now", "full": "yes"},
        {"request": "now", "partition": 1},
    ],
)
def test_a_reconcile_that_can_t_be_understood_is_refused(
    worker_state: WorkerState, client: testing.TestClient, body: object
) -> None:
    answer = reconcile(client, body)
    assert answer.status == falcon.HTTP_400
    assert "full" in answer.text, "it says what to send"
    assert worker_state.comparison is None
