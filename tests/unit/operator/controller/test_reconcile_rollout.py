"""Whole looks at a stream whose workers change."""

from itertools import pairwise

from dedupe_crds.status.worker import Phase
from dedupe_operator.controller.reconciler import (
    PROBLEM_RETRY_SECONDS,
    RESYNC_SECONDS,
    ROLLOUT_POLL_SECONDS,
)
from dedupe_operator.errors import KubernetesError
from tests.unit.operator.objects import RELEASE, worker_status
from tests.unit.operator.scene import Scene


def test_a_change_is_rolled_one_partition_at_a_time(scene: Scene) -> None:
    scene.kafka.partitions = 3
    scene.rest()
    scene.cluster.add_stream({"spec.worker": {"image": "registry.example/worker:2"}})
    seen = []
    for _ in range(12):
        wait = scene.look()
        seen.append([scene.image(partition)[-1] for partition in range(3)])
        if seen[-1] != ["2", "2", "2"]:
            assert wait == ROLLOUT_POLL_SECONDS
            assert scene.cluster.condition("Progressing")["reason"] == "RollingOut"
        scene.cluster.settle()
    steps = [before.count("1") - after.count("1") for before, after in pairwise(seen)]
    assert max(steps) == 1
    assert seen[-1] == ["2", "2", "2"]
    assert scene.rest() == RESYNC_SECONDS
    assert scene.cluster.condition("Ready")["status"] == "True"


def test_the_last_partition_of_a_rollout_is_waited_for_too(scene: Scene) -> None:
    scene.kafka.partitions = 1
    scene.rest()
    scene.cluster.add_stream({"spec.worker": {"image": "registry.example/worker:2"}})
    assert scene.look() == ROLLOUT_POLL_SECONDS
    assert scene.cluster.condition("Progressing")["reason"] == "Starting"


def test_a_new_admin_token_rolls_the_workers(scene: Scene) -> None:
    scene.rest()
    scene.cluster.remove("Secret", "orders-admin")
    scene.look()
    assert ("apply", "StatefulSet", "orders-0") in scene.cluster.writes
    assert ("apply", "StatefulSet", "orders-1") not in scene.cluster.writes


def test_a_bad_version_stops_at_the_first_partition_and_is_mended_without_a_hand(
    scene: Scene,
) -> None:
    scene.rest()
    scene.cluster.bad_images.add("bad:1")
    scene.cluster.add_stream({"spec.worker": {"image": "bad:1"}})
    assert scene.rest() == PROBLEM_RETRY_SECONDS
    assert [scene.image(0), scene.image(1)] == ["bad:1", RELEASE.image]
    assert scene.cluster.condition("Ready")["reason"] == "ImagePullFailed"
    assert scene.cluster.condition("Progressing")["reason"] == "RolloutHeldBack"
    assert "artition 0: image bad:1" in scene.cluster.condition("Degraded")["message"]
    assert scene.cluster.status["partitions"][0]["phase"] == "Failed"

    scene.cluster.add_stream({"spec.worker": {"image": "good:2"}})
    assert scene.rest() == RESYNC_SECONDS
    assert [scene.image(0), scene.image(1)] == ["good:2", "good:2"]
    assert "StuckPodReplaced" in scene.cluster.told
    assert scene.cluster.condition("Ready")["status"] == "True"


def test_a_restart_annotation_rolls(scene: Scene) -> None:
    scene.rest()
    before = scene.cluster.one("Pod", "orders-1-0")["metadata"]["uid"]
    scene.cluster.add_stream({"metadata.annotations": {"dedupestream.io/restart": "now"}})
    scene.look()
    assert len(scene.cluster.writes) == 2  # one StatefulSet, and the status
    scene.cluster.settle()
    scene.rest()
    assert scene.cluster.one("Pod", "orders-1-0")["metadata"]["uid"] != before


def test_a_failing_partition_does_not_keep_the_others(scene: Scene) -> None:
    quota = KubernetesError("QuotaExceeded", "exceeded quota: small")
    scene.cluster.fails["PersistentVolumeClaim", "orders-0-1"] = quota
    scene.look()
    scene.cluster.settle()
    assert scene.look() == PROBLEM_RETRY_SECONDS
    assert scene.cluster.names("StatefulSet") == ["orders-1"]
    assert scene.cluster.condition("Ready")["reason"] == "QuotaExceeded"
    assert "1 of 2" in scene.cluster.condition("Ready")["message"]
    assert "artition 0: exceeded quota" in scene.cluster.condition("Degraded")["message"]


def test_a_field_that_cant_change_in_place_makes_the_stateful_set_anew(scene: Scene) -> None:
    scene.rest()
    immutable = KubernetesError("FieldImmutable", "Forbidden: updates to statefulset spec")
    scene.cluster.one("StatefulSet", "orders-0")["spec"]["serviceName"] = "other"
    scene.cluster.fails["StatefulSet", "orders-0"] = immutable
    scene.look()
    assert ("orphan", "StatefulSet", "orders-0") in scene.cluster.writes
    assert "StatefulSetReplaced" in scene.cluster.told
    del scene.cluster.fails["StatefulSet", "orders-0"]
    scene.rest()
    assert scene.cluster.one("StatefulSet", "orders-0")["spec"]["serviceName"] == "orders-0"


def test_a_workers_own_words_come_before_those_of_kubernetes(scene: Scene) -> None:
    scene.rest()
    scene.cluster.one("Pod", "orders-0-0")["status"]["conditions"][0]["status"] = "False"
    failed = worker_status(phase=Phase.FAILED, reason="DiskFull", message="the disk is full")
    scene.workers.say[0] = failed
    scene.look()
    assert scene.cluster.condition("Ready")["reason"] == "DiskFull"
    assert scene.cluster.status["partitions"][0]["message"] == (
        "the disk is full; raise spec.storage.size"
    )
