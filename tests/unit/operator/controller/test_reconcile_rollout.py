"""Whole looks at a stream whose workers change."""

from itertools import pairwise
from typing import Any

import pytest

from dedupe_crds.status.worker import Phase
from dedupe_operator.controller.reconciler import (
    PROBLEM_RETRY_SECONDS,
    RESYNC_SECONDS,
    ROLLOUT_POLL_SECONDS,
)
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import PODS, Resource
from tests.unit.operator.objects import MIRROR, RELEASE, mirrored, worker_status
from tests.unit.operator.scene import Scene


def test_a_pod_that_the_api_server_refuses_is_reported_and_the_last_one_stays(scene: Scene) -> None:
    scene.rest()
    before = scene.stateful_sets()
    refusal = KubernetesError("Invalid", "spec.template.spec.tolerations[0].operator: Unsupported")
    scene.cluster.fails["StatefulSet", "orders-0"] = refusal
    scene.cluster.add_stream({"spec.worker": {"tolerations": [{"operator": "Sometimes"}]}})
    scene.look()
    assert scene.stateful_sets() == before
    degraded = scene.cluster.condition("Degraded")
    assert degraded["reason"] == "Invalid"
    assert "tolerations[0].operator" in degraded["message"]
    assert scene.cluster.condition("Ready")["status"] == "True"


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


TUNED = {"spec.worker": {"tuning": {"commitInterval": "2s"}}}


def mounted_config(scene: Scene, partition: int) -> str:
    spec = scene.cluster.one("StatefulSet", f"orders-{partition}")["spec"]["template"]["spec"]
    (name,) = [each["configMap"]["name"] for each in spec["volumes"] if each["name"] == "config"]
    return str(name)


def manifest(scene: Scene, name: str) -> str:
    return str(scene.cluster.one("ConfigMap", name)["data"]["stream.yaml"])


def test_a_pod_that_starts_again_during_a_rollout_has_the_configuration_of_its_template(
    scene: Scene,
) -> None:
    scene.kafka.partitions = 3
    scene.rest()
    old = mounted_config(scene, 2)
    before = manifest(scene, old)
    scene.cluster.add_stream(TUNED)
    scene.look()
    assert mounted_config(scene, 0) != old
    assert "commitInterval: 2s" in manifest(scene, mounted_config(scene, 0))
    assert mounted_config(scene, 2) == old
    assert manifest(scene, old) == before
    scene.rest()
    assert {mounted_config(scene, partition) for partition in range(3)} != {old}


def test_configurations_of_earlier_manifests_go_once_no_pod_can_need_them(scene: Scene) -> None:
    scene.rest()
    first = mounted_config(scene, 0)
    for seconds in range(2, 6):
        tuning = {"tuning": {"commitInterval": f"{seconds}s"}}
        scene.cluster.add_stream({"spec.worker": tuning})
        scene.cluster.one("ConfigMap", mounted_config(scene, 0))["metadata"][
            "creationTimestamp"
        ] = f"2026-11-01T12:00:0{seconds}Z"
        scene.rest()
    names = scene.cluster.names("ConfigMap")
    assert first not in names
    # The newest manifest, that of the workers, and two earlier ones.
    assert len(names) == 4
    assert {"orders-worker", mounted_config(scene, 0)} <= set(names)


def test_a_configuration_that_is_in_use_or_of_another_owner_stays(scene: Scene) -> None:
    scene.rest()
    foreign = scene.cluster.get_copy("ConfigMap", mounted_config(scene, 0))
    foreign["metadata"] |= {"name": "orders-worker-0123456789", "ownerReferences": []}
    scene.cluster.add(foreign)
    scene.cluster.bad_images.add("registry.example/worker:bad")
    first = mounted_config(scene, 1)
    for seconds in range(2, 7):
        worker = {
            "image": "registry.example/worker:bad",
            "tuning": {"commitInterval": f"{seconds}s"},
        }
        scene.cluster.add_stream({"spec.worker": worker})
        for _ in range(4):
            scene.look()
            scene.cluster.settle()
    assert mounted_config(scene, 1) == first
    assert {first, "orders-worker-0123456789"} <= set(scene.cluster.names("ConfigMap"))


def test_workers_of_an_earlier_release_are_not_restarted_for_the_name_of_their_configuration(
    scene: Scene,
) -> None:
    scene.rest()
    for partition in range(2):
        live = scene.cluster.one("StatefulSet", f"orders-{partition}")["spec"]["template"]["spec"]
        (volume,) = [each for each in live["volumes"] if each["name"] == "config"]
        volume["configMap"]["name"] = "orders-worker"
    scene.restart_operator()
    scene.rest()
    assert {mounted_config(scene, partition) for partition in range(2)} == {"orders-worker"}
    scene.cluster.add_stream(TUNED)
    scene.rest()
    assert "orders-worker" not in {mounted_config(scene, partition) for partition in range(2)}
    assert "commitInterval: 2s" in manifest(scene, "orders-worker")


def test_a_webhook_that_changes_images_causes_no_writes_and_stops_no_rollout(scene: Scene) -> None:
    scene.kafka.partitions = 3
    scene.cluster.webhook = mirrored
    assert scene.rest() == RESYNC_SECONDS
    assert scene.image(0).startswith(MIRROR)
    scene.cluster.add_stream({"spec.worker": {"image": "registry.example/worker:2"}})
    assert scene.rest() == RESYNC_SECONDS
    assert [scene.image(partition)[-1] for partition in range(3)] == ["2", "2", "2"]
    assert scene.cluster.condition("Progressing")["reason"] == "UpToDate"


def test_a_webhook_that_comes_later_restarts_each_worker_once(scene: Scene) -> None:
    scene.kafka.partitions = 3
    scene.rest()
    scene.cluster.webhook = mirrored
    scene.restart_operator()
    assert scene.rest() == RESYNC_SECONDS
    assert not scene.image(0).startswith(MIRROR)  # nothing was applied, so nothing was changed
    scene.cluster.add_stream({"spec.worker": {"image": "registry.example/worker:2"}})
    assert scene.rest() == RESYNC_SECONDS
    scene.restart_operator()
    scene.look()
    applied = [name for how, kind, name in scene.cluster.writes if kind == "StatefulSet"]
    assert scene.rest() == RESYNC_SECONDS
    assert len(applied) <= 1  # one after another; an apply that changes nothing restarts nothing


def test_drift_is_mended_under_a_webhook_too(scene: Scene) -> None:
    scene.cluster.webhook = mirrored
    scene.rest()
    live = scene.cluster.one("StatefulSet", "orders-0")
    live["spec"]["template"]["spec"]["containers"][0]["args"] = ["--something-else"]
    scene.rest()
    assert "--partition=0" in live_args(scene)


def live_args(scene: Scene) -> list[str]:
    spec = scene.cluster.one("StatefulSet", "orders-0")["spec"]["template"]["spec"]
    args: list[str] = spec["containers"][0]["args"]
    return args


def test_what_another_program_changes_back_each_time_is_left_alone_and_named(scene: Scene) -> None:
    scene.rest()
    for _ in range(20):
        scene.cluster.one("Service", "orders-0")["spec"]["ports"][0]["port"] = 9999
        scene.look()
    assert ("apply", "Service", "orders-0") not in scene.cluster.writes
    assert scene.cluster.condition("Degraded")["reason"] == "ChangedByOthers"
    scene.clock.now += 700
    scene.rest()
    assert scene.cluster.one("Service", "orders-0")["spec"]["ports"][0]["port"] == 8080
    assert scene.cluster.condition("Degraded")["status"] == "False"


def test_a_bad_version_stops_at_one_partition_although_another_is_not_ready_for_a_moment(
    scene: Scene,
) -> None:
    scene.kafka.partitions = 3
    scene.rest()
    for partition in (1, 2):
        pod = scene.cluster.one("Pod", f"orders-{partition}-0")
        pod["status"]["conditions"][0]["status"] = "False"
    scene.cluster.bad_images.add("registry.example/worker:bad")
    scene.cluster.add_stream({"spec.worker": {"image": "registry.example/worker:bad"}})
    for _ in range(10):
        scene.look()
        for partition in (0, 2):  # the moment ends
            pod = scene.cluster.one("Pod", f"orders-{partition}-0")
            pod["status"]["conditions"][0]["status"] = "True"
        scene.cluster.settle()
    assert [scene.image(partition)[-3:] == "bad" for partition in range(3)] == [False, True, False]
    assert scene.cluster.condition("Progressing")["reason"] == "RolloutHeldBack"


def test_a_partition_whose_objects_cant_be_applied_is_waited_for_too(scene: Scene) -> None:
    scene.rest()
    scene.cluster.one("Pod", "orders-1-0")["status"]["conditions"][0]["status"] = "False"
    scene.cluster.remove("Service", "orders-1")
    scene.cluster.fails["Service", "orders-1"] = KubernetesError("Forbidden", "refused")
    scene.cluster.add_stream({"spec.worker": {"image": "registry.example/worker:2"}})
    scene.look()
    assert scene.image(0) == RELEASE.image
    del scene.cluster.fails["Service", "orders-1"]
    scene.look()
    assert scene.image(1) == "registry.example/worker:2"


def test_a_ready_worker_is_changed_by_what_is_read_live_only(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the watch of the pods is late, memory has one as ready that is not."""
    scene.rest()
    cluster, find = scene.cluster, scene.cluster.find
    late = [cluster.get_copy("Pod", f"orders-{number}-0") for number in range(2)]
    cluster.one("Pod", "orders-1-0")["status"]["conditions"] = []

    def find_late(resource: Resource, *given: Any, **selectors: Any) -> list[Object]:  # noqa: ANN401 # as the API's
        if resource is PODS and cluster.in_memory:
            return late
        return find(resource, *given, **selectors)

    monkeypatch.setattr(cluster, "find", find_late)
    cluster.add_stream({"spec.worker.image": "registry.example/worker:2"})
    scene.look()
    assert [scene.image(number) for number in range(2)] == [
        "registry.example/worker:1",
        "registry.example/worker:2",
    ]
