"""A snapshot from request to restore: the operator on a cluster in memory, a worker's real parts, a real bucket."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import httpx

from dedupe_crds.annotations import RESTORE, RestoreRequest
from dedupe_crds.manifest import parse_manifest
from dedupe_crds.status.worker import UploadPhase
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.kubernetes.resources import SECRETS, STATEFUL_SETS, STREAMS
from dedupe_operator.resources import admin_secret
from dedupe_operator.snapshots.manager import SnapshotManager
from dedupe_operator.volume_manager import VolumeManager
from dedupe_operator.worker_client import WorkerClient
from dedupe_worker.admin.commands import AdminCommands, CommandQueue
from dedupe_worker.admin.http_api import make_app
from dedupe_worker.admin.metrics import make_registry
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import WorkerConfig
from dedupe_worker.kafka.admin import Topics
from dedupe_worker.session import Session
from dedupe_worker.store.state_dir import Identity, StateDirectory
from tests.support.patience import wait_for
from tests.support.snapshots.buckets import TestBucket
from tests.support.tracer import Tracer
from tests.unit.architecture.stream_walk import handlers_of, until_stateful_set
from tests.unit.operator.objects import NAMESPACE, STREAM, raw_stream
from tests.unit.operator.scene import KEY, Scene
from tests.unit.worker.stores import random_ids, remember

IDENTITY = Identity(
    stream=f"{NAMESPACE}/{STREAM}", partition=0, input_topic_id="in", output_topic_id="out"
)
SNAPSHOT: Final = "first"
_TICK_SECONDS: Final = 0.01
_SECONDS: Final = 60.0


class Worker:
    """The worker of partition 0, whose loop does nothing but commands."""

    def __init__(self, changes: dict[str, Any], directory: Path, token: str) -> None:
        directory.mkdir()
        self.config = WorkerConfig(
            stream=parse_manifest(raw_stream(changes), "test"),
            partition=0,
            state=StateDirectory(directory),
            properties={},
        )
        self.factory = ComponentFactory(self.config)
        self.commands = CommandQueue()
        state = self.factory.worker_state
        self.app = make_app(
            state,
            self.commands,
            make_registry(state),
            token,
            requests=self.factory.requests,
            upload_manager=self.factory.upload_manager,
        )

    def uploaded(self) -> bool:
        upload = self.factory.worker_state.upload
        return upload is not None and upload.phase is UploadPhase.COMPLETED

    @contextmanager
    def running(self) -> Iterator[None]:
        """Carry out commands on a store with ids."""
        stop = Event()
        ready = Event()

        def loop() -> None:
            store = self.factory.make_store()
            remember(store, random_ids(1, 100), position=100)
            target = AdminCommands(
                self.config,
                IDENTITY,
                store,
                self.factory.worker_state,
                self.factory.upload_manager,
                read_foreign=lambda: True,
            )
            ready.set()
            while not stop.wait(_TICK_SECONDS):
                if not self.commands._waiting.empty():  # noqa: SLF001 (idle turns are not of the walk)
                    self.commands.run_waiting(target)
            store.close()

        thread = Thread(target=loop)
        thread.start()
        assert ready.wait(30)
        try:
            yield
        finally:
            stop.set()
            thread.join()


class WorkerTransport(httpx.AsyncBaseTransport):
    """The network between the operator and its worker.

    A request for a snapshot is answered when the upload has ended, and so has the walk: what follows runs beside it.
    """

    def __init__(self, tracer: Tracer) -> None:
        self.worker: Worker | None = None
        self._tracer = tracer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        # In a new thread, which the tracer watches, as it watches the worker's.
        with ThreadPoolExecutor(1) as thread:
            return await asyncio.get_running_loop().run_in_executor(thread, self._answer, request)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        worker = self.worker
        if worker is None:
            raise httpx.ConnectError("no worker")
        asked = httpx.Request(
            request.method, request.url, headers=request.headers, content=request.content
        )
        answer = httpx.WSGITransport(worker.app).handle_request(asked)
        answer.read()
        if request.url.path == "/snapshots":
            wait_for(worker.uploaded, "the upload has ended", deadline_seconds=_SECONDS)
            self._tracer.stop()
        return httpx.Response(answer.status_code, stream=httpx.ByteStream(answer.content))


class _EndOfWalk(Exception):
    """The volume is restored; what follows needs Kafka."""


class RestoringFactory(ComponentFactory):
    """Ends the session where it would first ask Kafka."""

    def make_topics(self, stop: Event) -> Topics:  # noqa: ARG002 (as the factory's)
        raise _EndOfWalk


class SnapshotWalk:
    """A stream of one partition with snapshots in a bucket."""

    def __init__(self, tracer: Tracer, scene: Scene, bucket: TestBucket, directory: Path) -> None:
        self._tracer = tracer
        self._scene = scene
        self._directory = directory
        self._changes = {"spec.snapshots": bucket.snapshots()}
        self._network = WorkerTransport(tracer)
        self._client = WorkerClient(transport=self._network)
        scene.kafka.partitions = 1
        scene.workers = self._client  # type: ignore[assignment] # asks a worker of this walk
        scene.restart_operator()
        scene.cluster.add_stream(self._changes)
        scene.rest()

    def take(self) -> None:
        """Take a snapshot: from a user's DedupeSnapshot until all is in the bucket."""
        due: list[Key] = []
        token = admin_secret.token(self._scene.cluster.one(SECRETS.kind, f"{STREAM}-admin"))
        worker = Worker(self._changes, self._directory / "worker", token)
        self._scene.add_snapshot(SNAPSHOT)
        spec = self._scene.snapshot(SNAPSHOT)["spec"]
        handlers_of(due.append)["snapshot_changed"](namespace=NAMESPACE, spec=spec)
        assert due == [KEY]
        with self._tracer.installed(), worker.running():
            self._network.worker = worker
            with self._tracer.record(start_at=f"{SnapshotManager.__module__}:SnapshotManager.act"):
                self._scene.reconciler.reconcile(KEY)
            self._scene.look()
        self._network.worker = None
        assert self._scene.snapshot(SNAPSHOT)["status"]["phase"] == "Completed"

    def restore(self) -> None:
        """Restore: from a user's request until a worker has filled a new volume."""
        request = RestoreRequest(request="1", partition=0, source=SNAPSHOT)
        metadata = self._scene.cluster.one(STREAMS.kind, STREAM)["metadata"]
        metadata.setdefault("annotations", {})[RESTORE] = request.model_dump_json()
        with self._tracer.installed(), until_stateful_set(self._tracer, self._scene):
            with self._tracer.record(start_at=f"{VolumeManager.__module__}:VolumeManager.choose"):
                self._scene.reconciler.reconcile(KEY)
            self._fill_volume()
        self._client.close()

    def _fill_volume(self) -> None:
        """Run the new worker's session, as far as it needs no Kafka."""
        stateful_set = self._scene.cluster.one(STATEFUL_SETS.kind, f"{STREAM}-0")
        assert f"--restore-from={SNAPSHOT}" in str(stateful_set)
        directory = self._directory / "restored"
        directory.mkdir()
        config = WorkerConfig(
            stream=parse_manifest(raw_stream(self._changes), "test"),
            partition=0,
            state=StateDirectory(directory),
            properties={},
            restore_from=SNAPSHOT,
        )
        session = Session(RestoringFactory(config), CommandQueue(), Event(), record_limit=100)
        with self._tracer.record(), suppress(_EndOfWalk):
            session.run()
        assert config.state.recorded(IDENTITY.stream, 0) == IDENTITY
