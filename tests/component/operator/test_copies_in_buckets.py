"""The operator, workers' real HTTP interfaces and a real bucket: copies are reached where they lie."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from dedupe_operator.kubernetes.resources import SECRETS
from dedupe_operator.resources import admin_secret
from dedupe_operator.worker_client import WorkerClient
from tests.support.patience import wait_for
from tests.support.snapshots.bucket_fixtures import bucket, s3_server
from tests.support.snapshots.buckets import TestBucket
from tests.unit.architecture.snapshot_walk import Worker
from tests.unit.operator.conftest import scene
from tests.unit.operator.objects import STREAM
from tests.unit.operator.scene import Scene

__all__ = ["bucket", "s3_server", "scene"]


class Network(httpx.AsyncBaseTransport):
    """The network between the operator and the worker of partition 0, if there is one."""

    worker: Worker | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        with ThreadPoolExecutor(1) as thread:
            return await asyncio.get_running_loop().run_in_executor(thread, self._answer, request)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if self.worker is None:
            raise httpx.ConnectError("no worker")
        headers, url = request.headers, request.url
        asked = httpx.Request(request.method, url, headers=headers, content=request.content)
        answer = httpx.WSGITransport(self.worker.app).handle_request(asked)
        answer.read()
        return httpx.Response(answer.status_code, stream=httpx.ByteStream(answer.content))


class Stream:
    """A stream of one partition whose copies are in a bucket, under a prefix."""

    def __init__(self, scene: Scene, bucket: TestBucket, directory: Path) -> None:
        self.scene = scene
        self.bucket = bucket
        self._directory = directory
        self._network = Network()
        self.client = WorkerClient(transport=self._network)
        scene.kafka.partitions = 1
        scene.workers = self.client  # type: ignore[assignment] # asks a worker of this stream
        scene.restart_operator()

    @contextmanager
    def running(self, prefix: str) -> Iterator[None]:
        """Give the stream this prefix, and run a worker that has read it."""
        changes: dict[str, Any] = {"spec.snapshots": self.bucket.snapshots(prefix=prefix)}
        self.scene.cluster.add_stream(changes)
        self.scene.rest()
        token = admin_secret.token(self.scene.cluster.one(SECRETS.kind, f"{STREAM}-admin"))
        worker = Worker(changes, self._directory / prefix, token)
        with worker.running():
            self._network.worker = worker
            yield
            self._network.worker = None

    def reach(self, what: str, *, gone: bool = False) -> None:
        """Reconcile until the snapshot is complete, or gone."""

        def reached() -> bool:
            self.scene.look()
            if gone:
                return not self.scene.cluster.names("DedupeSnapshot")
            return bool(self.scene.snapshot("s").get("status", {}).get("phase") == "Completed")

        wait_for(reached, what)

    def manifests(self) -> list[str]:
        return sorted(each for each in self.bucket.objects() if each.endswith(".json"))


@pytest.fixture
def stream(scene: Scene, bucket: TestBucket, tmp_path: Path) -> Iterator[Stream]:
    stream = Stream(scene, bucket, tmp_path)
    yield stream
    stream.client.close()


def test_a_copy_is_read_and_deleted_where_it_lies_by_a_worker_with_another_prefix(
    stream: Stream,
) -> None:
    scene = stream.scene
    with stream.running("before"):
        scene.add_snapshot("s")
        stream.reach("the snapshot is complete")
        assert stream.manifests() == ["before/shop/orders/0/snapshots/s.json"]
    with stream.running("since"):
        scene.restart_operator()
        scene.rest()
        (entry,) = scene.snapshot("s")["status"]["partitions"]
        assert (entry["location"]["prefix"], entry.get("unreachable")) == ("before", None)
        scene.cluster.delete_as_user("DedupeSnapshot", "s")
        stream.reach("the snapshot is gone", gone=True)
    assert stream.manifests() == []


def test_a_bucket_that_is_gone_is_said_and_the_snapshot_stays(stream: Stream) -> None:
    scene, client = stream.scene, stream.bucket.client
    with stream.running("before"):
        scene.add_snapshot("s")
        stream.reach("the snapshot is complete")
    for key in stream.bucket.objects():
        client.delete_object(Bucket=stream.bucket.name, Key=key)
    client.delete_bucket(Bucket=stream.bucket.name)
    with stream.running("since"):
        scene.restart_operator()
        scene.rest()
        assert scene.cluster.condition("SnapshotsHealthy")["reason"] == "CopiesNotReadable"
        scene.cluster.delete_as_user("DedupeSnapshot", "s")
        scene.rest()
        assert scene.cluster.condition("SnapshotsHealthy")["reason"] == "CopiesNotDeleted"
        assert scene.cluster.names("DedupeSnapshot") == ["s"]
