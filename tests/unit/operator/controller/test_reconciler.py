"""Whole looks at a stream, against a cluster in memory."""

import pytest
from prometheus_client import generate_latest

from dedupe_crds.annotations import PARTITION
from dedupe_crds.status.stream import StreamStatus
from dedupe_crds.status.worker import DegradedReason
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_operator import metrics
from dedupe_operator.controller.reconciler import (
    PROBLEM_RETRY_SECONDS,
    RESYNC_SECONDS,
    ROLLOUT_POLL_SECONDS,
)
from dedupe_operator.controller.status_writer import read_status
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import STREAMS
from tests.unit.operator.objects import NAMESPACE, NOW, STREAM, worker_status
from tests.unit.operator.scene import KEY, Scene

PAUSED = {"metadata.annotations": {"dedupestream.io/pause-reconciliation": "true"}}
SHARED = [
    ("ServiceAccount", "orders-worker"),
    ("ConfigMap", "orders-worker"),
    ("Secret", "orders-admin"),
    ("PodDisruptionBudget", "orders"),
]


def test_a_new_stream_gets_all_its_children(scene: Scene) -> None:
    assert scene.look() == ROLLOUT_POLL_SECONDS
    assert scene.cluster.condition("Progressing")["reason"] == "Starting"
    for kind, name in SHARED:
        assert scene.cluster.one(kind, name)
    assert scene.cluster.names("StatefulSet") == ["orders-0", "orders-1"]
    assert scene.cluster.names("Service") == ["orders-0", "orders-1"]
    assert scene.cluster.names("PersistentVolumeClaim") == ["orders-0-1", "orders-1-1"]


def test_a_stream_comes_to_rest_ready_and_then_nothing_is_written(scene: Scene) -> None:
    assert scene.rest() == RESYNC_SECONDS
    assert scene.cluster.condition("Ready")["status"] == "True"
    assert scene.cluster.condition("Progressing")["reason"] == "UpToDate"
    assert scene.cluster.status["partitionsReady"] == "2/2"
    assert scene.cluster.status["observedGeneration"] == 1
    assert scene.cluster.told.count("StoreFromNothing") == 2
    before = len(scene.cluster.told)
    for _ in range(3):
        assert scene.look() == RESYNC_SECONDS
        assert scene.cluster.writes == []
    scene.restart_operator()
    scene.look()
    assert scene.cluster.writes == []
    assert len(scene.cluster.told) == before


def test_a_look_at_rest_reads_a_handful_of_times(scene: Scene) -> None:
    scene.rest()
    scene.cluster.reads = 0
    scene.look()
    assert scene.cluster.reads < RESYNC_SECONDS / 2


@pytest.mark.parametrize(("kind", "name"), [*SHARED, ("Service", "orders-1")])
def test_a_deleted_child_is_made_again(scene: Scene, kind: str, name: str) -> None:
    scene.rest()
    scene.cluster.remove(kind, name)
    scene.rest()
    assert scene.cluster.one(kind, name)


def test_a_child_on_its_way_out_is_made_again_when_it_is_gone(scene: Scene) -> None:
    scene.rest()
    service = scene.cluster.one("Service", "orders-0")
    service["metadata"]["deletionTimestamp"] = "2026-11-01T12:00:00Z"
    service["spec"]["selector"] = {}
    scene.look()
    assert scene.cluster.writes == []
    scene.cluster.remove("Service", "orders-0")
    scene.look()
    assert scene.cluster.writes == [("apply", "Service", "orders-0")]


def test_an_edited_child_is_mended_and_what_others_added_stays(scene: Scene) -> None:
    scene.rest()
    service = scene.cluster.one("Service", "orders-0")
    service["spec"]["selector"]["dedupestream.io/partition"] = "9"
    service["spec"]["internalTrafficPolicy"] = "Cluster"
    service["metadata"]["annotations"]["theirs"] = "stays"
    scene.look()
    assert scene.cluster.writes == [("apply", "Service", "orders-0")]
    mended = scene.cluster.one("Service", "orders-0")
    assert mended["spec"]["selector"]["dedupestream.io/partition"] == "0"
    assert mended["spec"]["internalTrafficPolicy"] == "Cluster"
    assert mended["metadata"]["annotations"]["theirs"] == "stays"
    scene.look()
    assert scene.cluster.writes == []


def test_the_admin_token_stays(scene: Scene) -> None:
    scene.rest()
    token = scene.cluster.one("Secret", "orders-admin")["data"]["token"]
    scene.restart_operator()
    scene.cluster.remove("ConfigMap", "orders-worker")
    scene.rest()
    assert scene.cluster.one("Secret", "orders-admin")["data"]["token"] == token


def test_a_status_of_a_newer_operator_is_read_without_what_it_added(scene: Scene) -> None:
    scene.rest()
    status = scene.cluster.status
    newer = {**status, "added": 1, "partitions": [{**status["partitions"][0], "added": "x"}]}
    assert (
        read_status({"status": newer}).partitions == read_status({"status": status}).partitions[:1]
    )
    assert read_status({"status": {"partitions": "another form"}}) == StreamStatus()


def test_a_pause_touches_nothing_and_shows(scene: Scene) -> None:
    scene.rest()
    scene.cluster.remove("Service", "orders-0")
    scene.cluster.add_stream({**PAUSED, "spec.suspend": True})
    assert scene.look() == RESYNC_SECONDS
    assert scene.cluster.writes == [("apply", "DedupeStream", STREAM)]
    assert scene.cluster.condition("ReconciliationPaused")["status"] == "True"
    assert scene.cluster.condition("Ready")["status"] == "True"
    assert scene.cluster.status["partitionsReady"] == "2/2"
    assert scene.cluster.status["reason"] == "ReconciliationPaused"
    scene.look()
    assert scene.cluster.writes == []

    scene.cluster.add_stream()
    scene.rest()
    assert "reason" not in scene.cluster.status
    assert scene.cluster.one("Service", "orders-0")
    assert scene.cluster.condition("ReconciliationPaused")["status"] == "False"


def ready_metric() -> float | None:
    labels = {"namespace": NAMESPACE, "stream": STREAM}
    return metrics.registry.get_sample_value("dedupe_operator_stream_ready", labels)


def test_a_paused_stream_whose_worker_fails_is_not_called_ready(scene: Scene) -> None:
    scene.rest()
    scene.cluster.add_stream(PAUSED)
    scene.look()
    assert ready_metric() == 1
    scene.cluster.remove("Pod", "orders-1-0")
    scene.look()
    assert ready_metric() == 0
    assert scene.cluster.condition("Ready")["status"] == "False"
    assert scene.cluster.status["partitionsReady"] == "1/2"
    assert scene.cluster.condition("GuaranteesMet")["status"] == "Unknown"
    assert [each["ready"] for each in scene.cluster.status["partitions"]] == [True, False]
    assert "lagMessages" not in scene.cluster.status["partitions"][0]


def test_a_suspended_stream_has_no_ready_metric_and_so_no_alert(scene: Scene) -> None:
    scene.rest()
    assert ready_metric() == 1
    scene.cluster.add_stream({"spec.suspend": True})
    scene.rest()
    assert ready_metric() is None
    scene.cluster.add_stream({**PAUSED, "spec.suspend": True})
    scene.rest()
    assert ready_metric() is None
    assert scene.cluster.condition("Ready")["reason"] == "Suspended"


def test_who_waits_for_ready_of_a_change_waits_until_all_workers_have_it(scene: Scene) -> None:
    scene.kafka.partitions = 3
    scene.rest()
    first = scene.cluster.condition("Ready")["observedGeneration"]
    scene.cluster.add_stream({"spec.worker": {"image": "registry.example/worker:2"}})
    generation = scene.cluster.one("DedupeStream", STREAM)["metadata"]["generation"]
    assert generation > first
    while {scene.image(partition)[-1] for partition in range(3)} != {"2"}:
        scene.look()
        ready = scene.cluster.condition("Ready")
        assert (ready["status"], ready["observedGeneration"]) != ("True", generation)
        assert scene.cluster.condition("Reconciling")["status"] == "True"
        scene.cluster.settle()
    scene.rest()
    ready = scene.cluster.condition("Ready")
    assert (ready["status"], ready["observedGeneration"]) == ("True", generation)
    assert scene.cluster.condition("Reconciling")["status"] == "False"


def test_a_stream_whose_shared_children_fail_says_why(scene: Scene) -> None:
    denied = KubernetesError("AdmissionDenied", "the policy denied the request")
    scene.cluster.fails["ConfigMap", "orders-worker"] = denied
    assert scene.look() == PROBLEM_RETRY_SECONDS
    assert scene.cluster.condition("Ready")["reason"] == "AdmissionDenied"
    assert scene.cluster.names("StatefulSet") == []


def test_a_foreign_object_is_left_alone(scene: Scene) -> None:
    theirs: Object = {"metadata": {"name": "orders-0", "namespace": NAMESPACE}, "spec": {"a": 1}}
    scene.cluster.add({"apiVersion": "v1", "kind": "Service", **theirs})
    for _ in range(3):
        scene.look()
        scene.cluster.settle()
    assert scene.cluster.one("Service", "orders-0")["spec"] == {"a": 1}
    assert scene.cluster.condition("Ready")["reason"] == "NameTaken"
    assert f"Service {NAMESPACE}/orders-0" in scene.cluster.condition("Ready")["message"]
    assert scene.cluster.names("StatefulSet") == ["orders-1"]


@pytest.mark.parametrize("kind", ["StatefulSet", "PersistentVolumeClaim"])
def test_an_object_of_a_partition_that_no_stream_has_is_passed_over(
    scene: Scene, kind: str
) -> None:
    scene.rest()
    claims = scene.cluster.names("PersistentVolumeClaim")
    foreign = scene.cluster.get_copy(kind, "orders-0" if kind == "StatefulSet" else "orders-0-1")
    foreign["metadata"] |= {"name": "orders-10000", "uid": "of-a-user"}
    foreign["metadata"]["labels"][PARTITION] = "10000"
    scene.cluster.add(foreign)

    scene.cluster.one("DedupeStream", STREAM).pop("status")
    scene.rest()

    assert set(scene.cluster.names("PersistentVolumeClaim")) <= {*claims, "orders-10000"}
    assert [each["partition"] for each in scene.cluster.status["partitions"]] == [0, 1]


def test_labels_taken_off_a_worker_are_put_back(scene: Scene) -> None:
    scene.rest()
    scene.cluster.one("StatefulSet", "orders-0")["metadata"].pop("labels")
    scene.rest()
    labels = scene.cluster.one("StatefulSet", "orders-0")["metadata"]["labels"]
    assert labels["dedupestream.io/partition"] == "0"


@pytest.mark.parametrize("partition", [None, "1", "7"])
@pytest.mark.parametrize("kind", ["StatefulSet", "Pod"])
def test_a_worker_with_another_partitions_label_is_put_right(
    scene: Scene, kind: str, partition: str | None
) -> None:
    scene.rest()
    name = "orders-0" if kind == "StatefulSet" else "orders-0-0"
    labels = scene.cluster.one(kind, name)["metadata"]["labels"]
    labels.pop("dedupestream.io/partition")
    if partition:
        labels["dedupestream.io/partition"] = partition
    scene.rest()
    labels = scene.cluster.one(kind, name)["metadata"]["labels"]
    assert labels["dedupestream.io/partition"] == "0"
    assert scene.cluster.names("StatefulSet") == ["orders-0", "orders-1"]
    assert len(scene.cluster.status["partitions"]) == 2
    assert ("StrayPodReplaced" in scene.cluster.told) == (kind == "Pod")


def test_somebody_elses_pod_in_a_workers_place_is_left_alone(scene: Scene) -> None:
    theirs = {"metadata": {"name": "orders-0-0", "namespace": NAMESPACE}, "spec": {}}
    scene.cluster.add({"apiVersion": "v1", "kind": "Pod", **theirs})
    for _ in range(2):
        scene.look()
    assert scene.cluster.names("Pod") == ["orders-0-0"]
    assert scene.cluster.condition("Ready")["reason"] == "NameTaken"
    assert f"Pod {NAMESPACE}/orders-0-0" in scene.cluster.condition("Ready")["message"]


def test_a_stream_that_goes_away_is_not_looked_after_any_more(scene: Scene) -> None:
    def ready() -> float | None:
        labels = {"namespace": NAMESPACE, "stream": STREAM}
        return metrics.registry.get_sample_value("dedupe_operator_stream_ready", labels)

    scene.rest()
    assert ready() == 1.0
    scene.cluster.one("DedupeStream", STREAM)["metadata"]["deletionTimestamp"] = "now"
    assert scene.look() is None
    assert scene.cluster.writes == []
    assert ready() is None


def test_nothing_is_kept_of_streams_that_went_away(scene: Scene) -> None:
    """Whoever creates and deletes streams of ever other names must not fill the memory."""
    scene.rest()
    children = scene.reconciler._applier._applier.children  # noqa: SLF001
    assert children._applied  # noqa: SLF001
    scene.cluster.delete_as_user("DedupeStream", STREAM)
    assert scene.look() is None
    assert not children._applied  # noqa: SLF001
    series = generate_latest(metrics.registry).decode()
    assert f'stream="{STREAM}"' not in series


def test_a_manifest_this_operator_cant_read_is_told_and_nothing_is_touched(scene: Scene) -> None:
    scene.rest()
    scene.cluster.add_stream({"spec.newField": 1})
    assert scene.look() == RESYNC_SECONDS
    assert scene.cluster.writes == [("apply", "DedupeStream", STREAM)]
    assert scene.cluster.condition("Ready")["reason"] == "InvalidManifest"
    assert scene.cluster.status["observedGeneration"] == 2
    assert "newField" in scene.cluster.condition("Ready")["message"]
    assert scene.cluster.status["partitionsReady"] == "2/2"
    scene.look()
    assert scene.cluster.writes == []


def test_a_short_window_is_told(scene: Scene) -> None:
    scene.workers.say[1] = worker_status(1, window_healthy=False)
    scene.rest()
    one = scene.cluster.condition("WindowHealthy")
    assert (one["status"], one["reason"]) == ("False", "TooShort")
    assert "partition 1:" in one["message"]


def test_what_a_running_worker_does_not_keep_is_told_and_changes_nothing_else(scene: Scene) -> None:
    missing = DegradedReason(
        reason="MissingIds", message="no ids", count=3, first_seen=NOW, last_seen=NOW
    )
    scene.workers.say[1] = worker_status(1).model_copy(update={"degraded": [missing]})
    scene.rest()
    one = scene.cluster.condition("GuaranteesMet")
    assert (one["status"], one["reason"]) == ("False", "MissingIds")
    assert one["message"] == "MissingIds in partition 1: No ids."
    assert scene.cluster.condition("Ready")["status"] == "True"
    assert scene.cluster.status["partitions"][1]["degraded"] == ["MissingIds"]
    more = missing.model_copy(update={"count": 400})
    scene.workers.say[1] = worker_status(1).model_copy(update={"degraded": [more]})
    scene.look()
    assert scene.cluster.writes == [], "a figure alone is no news"


def test_figures_alone_are_written_once_a_minute(scene: Scene) -> None:
    scene.rest()
    scene.workers.say[0] = worker_status(duplicates=1000)
    scene.look()
    assert scene.cluster.writes == []
    scene.restart_operator()
    scene.look()
    assert scene.cluster.writes == [("apply", "DedupeStream", STREAM)]
    assert scene.cluster.status["duplicates"] == 1000


def test_the_status_of_a_deleted_stream_does_not_go_to_its_namesake(scene: Scene) -> None:
    scene.rest()
    scene.cluster.add_stream({"spec.suspend": True})
    scene.cluster.has_memory = False  # so the stream is read once
    real = scene.cluster.get

    def replaced_meanwhile(*args: object) -> Object | None:
        found = real(*args)  # type: ignore[arg-type] # passed on
        if args[0] is STREAMS:
            scene.cluster.one("DedupeStream", STREAM)["metadata"]["uid"] = "another"
        return found

    scene.cluster.get = replaced_meanwhile  # type: ignore[method-assign, assignment] # a race, staged
    with pytest.raises(KubernetesError, match="another UID"):
        scene.look()
    scene.cluster.get = real  # type: ignore[method-assign] # as it was


def test_with_many_streams_those_at_rest_are_looked_at_more_rarely(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert scene.rest() == RESYNC_SECONDS
    # As with 800 streams; one that has a problem is looked at as soon as ever.
    monkeypatch.setattr("dedupe_operator.controller.reconciler._RESYNCS_PER_SECOND", 0.01)
    assert scene.look() == 100.0
    scene.kafka.fails = BrokerUnavailable("no answer")
    assert scene.look() == PROBLEM_RETRY_SECONDS


def test_a_stream_that_is_created_again_between_two_passes_is_another_one(scene: Scene) -> None:
    """As `kubectl replace --force` does; its output topic is not new any more."""
    delete = {"spec.storage.reclaimPolicy": "Delete"}
    scene.cluster.add_stream(delete)
    scene.reconciler.reconcile(KEY)
    assert scene.cluster.status["partitions"][0]["restore"]["source"] == "Nothing"
    scene.cluster.delete_as_user("DedupeStream", STREAM)
    scene.cluster.add_stream(delete | {"metadata.uid": "another"})
    scene.reconciler.reconcile(KEY)
    assert scene.cluster.status["partitions"][0]["restore"]["source"] == "OutputTopic"
