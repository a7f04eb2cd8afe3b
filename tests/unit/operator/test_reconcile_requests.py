"""Whole looks at a stream whose stores are to be compared with the output topic."""

import pytest

from dedupe_crds.status.worker import ComparisonStatus
from dedupe_operator.controller.reconciler import ROLLOUT_POLL_SECONDS
from dedupe_operator.worker_client import WorkerRefused
from tests.unit.operator.objects import worker_status
from tests.unit.operator.scene import Scene

RECONCILE = "dedupestream.io/reconcile"


@pytest.fixture
def running(scene: Scene) -> Scene:
    scene.rest()
    scene.workers.answers["/reconcile"] = {}
    return scene


def ask(scene: Scene, text: str = '{"request": "1", "full": true}') -> None:
    scene.cluster.add_stream({"metadata.annotations": {RECONCILE: text}})


def answer(scene: Scene, partition: int, request: str = "1", *, done: bool = True) -> None:
    said = ComparisonStatus(request=request, full=True, done=done, records=9, added=2, removed=1)
    scene.workers.say[partition] = worker_status(partition).model_copy(update={"comparison": said})


def asked(scene: Scene) -> list[int]:
    return [partition for partition, path, _ in scene.workers.asked if path == "/reconcile"]


def test_one_partition_after_another_is_asked_and_the_counts_are_kept(running: Scene) -> None:
    ask(running)
    assert running.look() == ROLLOUT_POLL_SECONDS
    assert running.workers.asked == [(0, "/reconcile", {"request": "1", "full": True})]
    answer(running, 0, done=False)
    running.look()
    assert asked(running) == [0]
    assert running.cluster.status["partitions"][0]["comparison"]["done"] is False
    answer(running, 0)
    running.look()
    assert asked(running) == [0, 1]
    answer(running, 1)
    running.rest()
    shown = running.cluster.status["partitions"][1]["comparison"]
    assert (shown["added"], shown["removed"], shown["done"]) == (2, 1, True)
    assert running.cluster.told.count("StoreReconcileFinished") == 2
    running.restart_operator()
    running.rest()
    assert asked(running) == [0, 1]
    assert running.cluster.told.count("StoreReconcileFinished") == 2


def test_what_was_done_stays_done_though_its_worker_has_another_volume(running: Scene) -> None:
    ask(running, '{"request": "1", "partitions": [1]}')
    running.look()
    answer(running, 1)
    running.rest()
    running.workers.say.clear()
    running.rest()
    assert asked(running) == [1]
    assert running.cluster.status["partitions"][1]["comparison"]["request"] == "1"


def test_the_next_request_is_another(running: Scene) -> None:
    for request in ("1", "2"):
        ask(running, f'{{"request": "{request}", "partitions": [0]}}')
        running.look()
        answer(running, 0, request)
        running.rest()
    assert asked(running) == [0, 0]


def test_a_worker_that_refuses_is_asked_again(running: Scene) -> None:
    running.workers.answers["/reconcile"] = WorkerRefused("Busy", "another runs")
    ask(running)
    running.look()
    running.look()
    assert asked(running) == [0, 0]
    assert "another runs" in running.cluster.status["partitions"][0]["message"]
    running.workers.answers["/reconcile"] = {}
    running.look()
    assert "message" not in running.cluster.status["partitions"][0]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"request": "1", "partitions": ["a"]}'])
def test_a_request_that_can_not_be_read_is_none(running: Scene, text: str) -> None:
    ask(running, text)
    running.rest()
    assert asked(running) == []
