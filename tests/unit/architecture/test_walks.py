"""The walks of docs/architecture.md, taken on the real code: the same modules, in the same order, and straight."""

from pathlib import Path

import pytest

from tests.support.snapshots.bucket_fixtures import bucket, s3_server
from tests.support.snapshots.buckets import TestBucket
from tests.support.tracer import Tracer, calls_upward, order_of_first_entries, returns_of
from tests.unit.architecture import record_walk, stream_walk
from tests.unit.architecture.page import HEADINGS, is_used_everywhere, walk
from tests.unit.architecture.snapshot_walk import SnapshotWalk
from tests.unit.operator.conftest import scene
from tests.unit.operator.scene import Scene

__all__ = ["bucket", "s3_server", "scene"]


@pytest.fixture(autouse=True)
def _live(scene: Scene) -> None:
    """Let each pass read live at once: the pages leave out the attempt from memory before it."""
    scene.cluster.has_memory = False


@pytest.fixture
def tracer() -> Tracer:
    return Tracer(
        ignored=is_used_everywhere,
        stands_for={
            "tests.unit.operator.fake_cluster": "dedupe_operator.kubernetes.api",
            "tests.unit.operator.fake_kafka": "dedupe_kafka.cluster",
        },
    )


def assert_is_the_page(tracer: Tracer, name: str, *, leader: str) -> None:
    """Compare what was entered with a list of the page; the leader is the module that calls most steps in turn."""
    page = walk(HEADINGS[name])
    assert order_of_first_entries(tracer.entries) == page.modules
    assert calls_upward(tracer.entries) | returns_of(leader, tracer.entries) == page.again


def test_a_record_goes_from_consume_to_commit_as_the_page_says(
    tracer: Tracer, tmp_path: Path
) -> None:
    producer = record_walk.run(tracer, tmp_path)
    assert [topic for topic, _ in producer.sent] == record_walk.TOPICS
    assert producer.committed == [len(record_walk.BATCH)]
    assert_is_the_page(tracer, "record", leader="dedupe_worker.dedup.loop")


def test_a_stream_goes_from_watch_to_stateful_set_as_the_page_says(
    tracer: Tracer, scene: Scene
) -> None:
    stream_walk.run(tracer, scene)
    assert scene.cluster.names("StatefulSet") == ["orders-0", "orders-1"]
    assert_is_the_page(tracer, "stream", leader="dedupe_operator.controller.reconciler")


def test_a_snapshot_goes_from_request_to_restore_as_the_page_says(
    tracer: Tracer, scene: Scene, bucket: TestBucket, tmp_path: Path
) -> None:
    snapshots = SnapshotWalk(tracer, scene, bucket, tmp_path)
    snapshots.take()
    assert_is_the_page(tracer, "snapshot", leader="dedupe_operator.snapshots.runner")
    tracer.entries.clear()
    snapshots.restore()
    assert_is_the_page(tracer, "restore", leader="dedupe_operator.controller.reconciler")
