"""Snapshots over HTTP: one at a time, the same answer to the same question, and nothing in each other's way."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread

import falcon
import pytest
from falcon import testing

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.worker import UploadPhase, UploadStatus, WorkerStatus
from dedupe_worker.admin.commands import AdminCommands, CommandQueue, StoreCommands
from dedupe_worker.admin.http_api import make_app
from dedupe_worker.admin.metrics import make_registry
from dedupe_worker.admin.reconcile_requests import ReconcileRequests
from dedupe_worker.config import WorkerConfig
from dedupe_worker.snapshots import s3_client
from dedupe_worker.snapshots import upload_manager as upload_manager_module
from dedupe_worker.snapshots.upload_manager import UploadManager
from dedupe_worker.status import WorkerState
from dedupe_worker.store.checkpoint import CheckpointRecord
from tests.support.patience import HANG_SECONDS, wait_for
from tests.support.processes.faulty_proxy import Answer, Forward, Request
from tests.support.snapshots.bucket_fixtures import bucket, s3_server
from tests.support.snapshots.buckets import (
    ACCESS_DENIED,
    ALWAYS,
    REGION,
    SECRET,
    TestBucket,
    is_content,
)
from tests.support.snapshots.scene import FOLDER, IDENTITY, PARTITION, Scene
from tests.unit.crds.manifests import MINIMAL
from tests.unit.worker.stores import random_ids, remember

__all__ = ["bucket", "s3_server"]

TOKEN = "correct-horse"  # noqa: S105 # nobody's


class Worker:
    """A worker's HTTP interface, state and store, and a thread in place of its loop."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.worker_state = WorkerState(scene.stream, PARTITION)
        deadline = timedelta(hours=1)
        self.upload_manager = UploadManager(
            scene.s3, self.worker_state, scene.state, deadline=deadline
        )
        self.commands = CommandQueue()
        self.client = client_of(self.worker_state, self.commands, self.upload_manager, scene)
        self._stop = Event()
        self._thread = Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        config = WorkerConfig(
            stream=self.scene.stream, partition=PARTITION, state=self.scene.state, properties={}
        )
        with self.scene.store() as store:
            self._store = store
            admin_commands = AdminCommands(
                *(config, IDENTITY, store, self.worker_state, self.upload_manager),
                read_foreign=lambda: True,
            )
            while not self._stop.wait(0.001):
                self.commands.run_waiting(admin_commands)

    def end(self) -> None:
        self._stop.set()
        self._thread.join()

    def fill(self) -> None:
        """Have the store remember ids of two minutes, on the loop's thread."""

        def run(_: StoreCommands) -> None:
            remember(self._store, random_ids(1, 1_000), position=1_000, now_ms=60_000)
            remember(self._store, random_ids(2, 1_000), position=2_000, now_ms=180_000)

        self.commands.call(run, HANG_SECONDS)

    def post(self, path: str, **body: object) -> testing.Result:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return self.client.simulate_post(path, json=body, headers=headers)

    def status(self) -> UploadStatus | None:
        text = self.client.simulate_get("/status").text
        return WorkerStatus.model_validate_json(text).upload

    def wait_until(self, phase: UploadPhase) -> UploadStatus:
        def reached() -> UploadStatus | None:
            status = self.status()
            return status if status and status.phase is phase else None

        found = wait_for(reached, f"the upload is {phase}")
        assert found is not None
        return found

    def metric(self, name: str, **labels: str) -> float | None:
        labels = {"stream": IDENTITY.stream, "partition": str(PARTITION), **labels}
        return make_registry(self.worker_state).get_sample_value(name, labels)


def client_of(
    worker_state: WorkerState,
    commands: CommandQueue,
    upload_manager: UploadManager | None,
    scene: Scene,
) -> testing.TestClient:
    requests = ReconcileRequests(worker_state, scene.state.root / "reconcile.json")
    app = make_app(
        worker_state,
        commands,
        make_registry(worker_state),
        TOKEN,
        requests=requests,
        upload_manager=upload_manager,
    )
    return testing.TestClient(app)


@pytest.fixture
def empty(bucket: TestBucket, tmp_path: Path) -> Iterator[Worker]:
    """A worker whose store holds nothing."""
    (tmp_path / "state").mkdir()
    worker = Worker(Scene(bucket, tmp_path))
    yield worker
    worker.end()


@pytest.fixture
def worker(empty: Worker) -> Worker:
    """A worker whose store holds something."""
    empty.fill()
    return empty


@pytest.fixture
def gate(worker: Worker) -> Iterator[Event]:
    """Set it to let contents of files through to the bucket."""
    opened = Event()

    def held(request: Request, forward: Forward) -> Answer:
        assert opened.wait(HANG_SECONDS)
        return forward(request)

    worker.scene.bucket.proxy.inject(
        lambda each: each.method == "PUT" and is_content(each), held, times=ALWAYS
    )
    yield opened
    opened.set()


def test_a_snapshot_is_begun_answered_and_followed(worker: Worker) -> None:
    answer = worker.post("/snapshots", name="nightly-1")
    assert answer.status == falcon.HTTP_202
    begun = UploadStatus.model_validate_json(answer.text)
    assert (begun.name, begun.handle) == ("nightly-1", f"{FOLDER}/snapshots/nightly-1.json")
    done = worker.wait_until(UploadPhase.COMPLETED)
    assert done.checkpoint == begun.checkpoint
    assert done.checkpoint is not None
    made = done.checkpoint
    assert (made.input_topic_id, made.output_topic_id) == ("in", "out")
    assert (made.output_position, made.keys) == (2_000, 2_000)
    assert made.window_seconds == 120
    assert done.total_bytes == done.new_bytes == done.uploaded_bytes > made.bytes > 0
    assert worker.metric("dedupe_snapshot_bytes") == done.total_bytes
    assert worker.metric("dedupe_snapshot_uploaded_bytes") == done.total_bytes
    assert worker.metric("dedupe_snapshot_phase", phase="Completed") == 1
    assert worker.metric("dedupe_snapshot_phase", phase="Running") == 0


def test_asked_again_it_is_the_same_one(worker: Worker, gate: Event) -> None:
    first = worker.post("/snapshots", name="a")
    again = worker.post("/snapshots", name="a")
    assert (first.status, again.status) == (falcon.HTTP_202, falcon.HTTP_202)
    assert again.json["phase"] == "Running"
    assert again.json["checkpoint"] == first.json["checkpoint"]
    gate.set()
    worker.wait_until(UploadPhase.COMPLETED)
    uploads = len(worker.scene.bucket.uploaded())
    last = worker.post("/snapshots", name="a")
    assert (last.json["phase"], last.json["checkpoint"]) == ("Completed", first.json["checkpoint"])
    assert len(worker.scene.bucket.uploaded()) == uploads
    assert len(list(worker.scene.state.checkpoints.iterdir())) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda worker: worker.post("/snapshots", name="b"),
        lambda worker: worker.post("/checkpoint"),
        lambda worker: worker.post("/snapshots/delete", names=["b"]),
    ],
)
def test_what_would_disturb_an_upload_waits(
    worker: Worker, gate: Event, call: Callable[[Worker], testing.Result]
) -> None:
    worker.post("/snapshots", name="a")
    answer = call(worker)
    assert answer.status == falcon.HTTP_409
    assert answer.json["title"] == "Busy"
    assert "snapshot a is being uploaded" in answer.json["description"]
    gate.set()
    worker.wait_until(UploadPhase.COMPLETED)

    def accepted() -> bool:
        return call(worker).status in {falcon.HTTP_200, falcon.HTTP_202}

    wait_for(accepted, "it is accepted")
    worker.wait_until(UploadPhase.COMPLETED)


def test_the_loop_goes_on_while_a_snapshot_is_uploaded(worker: Worker, gate: Event) -> None:
    worker.post("/snapshots", name="a")
    assert worker.post("/forget", ids=["x"]).json["forgotten"] == 0
    assert not gate.is_set()


def test_one_that_failed_says_why_and_is_begun_anew_after_a_rest(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_client, "_ATTEMPTS", 1)
    worker.scene.bucket.proxy.inject(lambda each: each.method == "PUT", ACCESS_DENIED, times=ALWAYS)
    worker.post("/snapshots", name="a")
    failed = worker.wait_until(UploadPhase.FAILED)
    assert failed.error is not None
    assert failed.error.startswith("BucketRefused: ")
    assert "AccessDenied" in failed.error
    assert SECRET not in failed.error
    assert worker.metric("dedupe_errors_total", reason="BucketRefused") == 1
    assert worker.post("/snapshots", name="a").json["phase"] == "Failed", "it rests"

    worker.scene.bucket.proxy.clear()
    monkeypatch.setattr(upload_manager_module, "_REST_SECONDS", 0.0)
    # It makes way a moment after it says that it has failed; until then there is a 409.
    wait_for(lambda: worker.post("/snapshots", name="a").json.get("phase") == "Running", "anew")
    assert worker.wait_until(UploadPhase.COMPLETED).error is None


@pytest.mark.parametrize("why", ["no longer wanted", "spec.snapshots.deadline"])
def test_one_that_hangs_is_given_up_and_makes_way(
    worker: Worker, gate: Event, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    worker.post("/snapshots", name="a")
    wait_for(worker.scene.bucket.uploaded, "it has begun")
    if "wanted" in why:
        assert worker.post("/snapshots/delete", names=["a"]).status == falcon.HTTP_409
    else:
        monkeypatch.setattr(worker.upload_manager, "_deadline", timedelta())
    gate.set()  # what hangs in a request ends with the request
    failed = worker.wait_until(UploadPhase.FAILED)
    assert failed.error is not None
    assert why in failed.error
    assert f"{FOLDER}/snapshots/a.json" not in worker.scene.bucket.objects()
    monkeypatch.setattr(worker.upload_manager, "_deadline", timedelta(hours=1))
    wait_for(lambda: worker.post("/snapshots", name="b").status == falcon.HTTP_202, "b is accepted")
    assert worker.wait_until(UploadPhase.COMPLETED).name == "b"


def test_another_one_need_not_rest(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_client, "_ATTEMPTS", 1)
    worker.scene.bucket.proxy.inject(lambda each: each.method == "PUT", ACCESS_DENIED, times=1)
    worker.post("/snapshots", name="a")
    worker.wait_until(UploadPhase.FAILED)
    wait_for(lambda: worker.post("/snapshots", name="b").status == falcon.HTTP_202, "b is accepted")
    assert worker.wait_until(UploadPhase.COMPLETED).name == "b"


def test_an_empty_store_has_nothing_to_upload(empty: Worker) -> None:
    answer = empty.post("/snapshots", name="a")
    assert (answer.status, answer.json["title"]) == (falcon.HTTP_409, "NothingToCheckpoint")


def test_what_is_there_can_be_asked(worker: Worker) -> None:
    assert worker.post("/snapshots/check", name="a").json == {"present": False, "record": None}
    worker.post("/snapshots", name="a")
    worker.wait_until(UploadPhase.COMPLETED)
    answer = worker.post("/snapshots/check", name="a").json
    assert answer["present"] is True
    record = CheckpointRecord.model_validate(answer["record"])
    assert (record.stream, record.partition) == (IDENTITY.stream, PARTITION)
    assert record.output_position == 2_000


def test_snapshots_can_be_deleted(worker: Worker) -> None:
    worker.post("/snapshots", name="a")
    worker.wait_until(UploadPhase.COMPLETED)
    deletion: list[testing.Result] = []

    def accepted() -> bool:
        deletion.append(worker.post("/snapshots/delete", names=["a", "b"]))
        return deletion[-1].status == falcon.HTTP_200

    wait_for(accepted, "it is accepted")
    assert deletion[-1].json == {"deleted": ["a", "b"], "objects": 0, "bytes": 0}
    assert worker.post("/snapshots/check", name="a").json["present"] is False


OTHER: Mapping[str, object] = {"prefix": "other/place", "region": REGION}


def elsewhere(worker: Worker) -> dict[str, object]:
    """Another location than that of the manifest, in the same bucket."""
    s3 = worker.scene.s3
    return {**OTHER, "bucket": s3.bucket, "endpoint": s3.endpoint}


def test_a_snapshot_is_made_read_and_deleted_where_the_request_says(worker: Worker) -> None:
    location, manifest = elsewhere(worker), f"{FOLDER}/snapshots/a.json"
    worker.post("/snapshots", name="a", location=location)
    done = worker.wait_until(UploadPhase.COMPLETED)
    assert done.handle == f"other/place/{manifest}"
    assert all(key.startswith("other/place/") for key in worker.scene.bucket.objects())
    present = [
        worker.post("/snapshots/check", name="a", **where).json["present"]
        for where in ({}, {"location": location})
    ]
    assert present == [False, True]
    for where in ({}, {"location": location}):
        assert f"other/place/{manifest}" in worker.scene.bucket.objects()
        wait_for(
            lambda where=where: (
                worker.post("/snapshots/delete", names=["a"], **where).status  # type: ignore[misc]
                == falcon.HTTP_200
            ),
            "it is accepted",
        )
    assert f"other/place/{manifest}" not in worker.scene.bucket.objects()


def test_a_snapshot_of_that_name_elsewhere_is_another_one(worker: Worker) -> None:
    worker.post("/snapshots", name="a")
    worker.wait_until(UploadPhase.COMPLETED)

    def begun() -> bool:
        answer = worker.post("/snapshots", name="a", location=elsewhere(worker))
        return bool(answer.json.get("phase") == "Running")

    wait_for(begun, "it is not taken for the one before")
    worker.wait_until(UploadPhase.COMPLETED)
    assert len([key for key in worker.scene.bucket.objects() if key.endswith("/a.json")]) == 2


def test_a_deleted_snapshot_is_made_again_under_its_name(worker: Worker) -> None:
    for _ in range(2):
        wait_for(
            lambda: worker.post("/snapshots", name="a").json.get("phase") == "Running", "begun"
        )
        worker.wait_until(UploadPhase.COMPLETED)
        assert worker.post("/snapshots/check", name="a").json["present"]
        wait_for(
            lambda: worker.post("/snapshots/delete", names=["a"]).status == falcon.HTTP_200,
            "it is deleted",
        )


def test_a_location_of_another_form_is_refused(worker: Worker) -> None:
    answer = worker.post("/snapshots/check", name="a", location={"secretKey": "no"})
    assert (answer.status, answer.json["title"]) == (falcon.HTTP_400, "BadRequest")


def test_a_bucket_that_refuses_is_named(worker: Worker) -> None:
    worker.scene.bucket.proxy.inject(lambda _: True, ACCESS_DENIED, times=ALWAYS)
    answer = worker.post("/snapshots/check", name="a")
    assert (answer.status, answer.json["title"]) == (falcon.HTTP_500, "BucketRefused")
    assert "AccessDenied" in answer.json["description"]


CALLS: Sequence[tuple[str, dict[str, object]]] = [
    ("/snapshots", {"name": "a"}),
    ("/snapshots/check", {"name": "a"}),
    ("/snapshots/delete", {"names": ["a"]}),
]


@pytest.mark.parametrize(("path", "body"), CALLS)
def test_without_a_bucket_there_are_none(
    bucket: TestBucket, tmp_path: Path, path: str, body: dict[str, object]
) -> None:
    worker_state = WorkerState(DedupeStream.model_validate(MINIMAL), PARTITION)
    client = client_of(worker_state, CommandQueue(), None, Scene(bucket, tmp_path))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = client.simulate_post(path, json=body, headers=headers)
    assert (answer.status, answer.json["title"]) == (falcon.HTTP_400, "NoBucket")


@pytest.mark.parametrize(("path", "body"), CALLS)
def test_the_token_is_asked_for(worker: Worker, path: str, body: dict[str, object]) -> None:
    answer = worker.client.simulate_post(path, json=body)
    assert answer.status == falcon.HTTP_401
    assert worker.scene.bucket.proxy.seen == []


@pytest.mark.parametrize("path", [path for path, _ in CALLS])
@pytest.mark.parametrize("name", ["", "../a", "a/b", "A", "a.json/", "x" * 254, 5, None])
def test_what_is_no_name_is_refused(worker: Worker, path: str, name: object) -> None:
    field = {"names": [name]} if path.endswith("delete") else {"name": name}
    for body in (field, {"nam": "a"}, {}):
        assert worker.post(path, **body).status == falcon.HTTP_400
    assert worker.scene.bucket.proxy.seen == []


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[]", b"null"])
def test_what_is_no_body_is_refused(worker: Worker, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = worker.client.simulate_post("/snapshots", body=body, headers=headers)
    assert answer.status == falcon.HTTP_400
