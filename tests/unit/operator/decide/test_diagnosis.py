"""Every cause Kubernetes or a worker names, by its stable reason."""

import json
from collections.abc import Sequence
from datetime import timedelta

import pytest

from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.worker import Phase
from dedupe_operator.decide import diagnosis as trouble
from dedupe_operator.kubernetes.names import Object
from tests.unit.operator.objects import (
    NOW,
    claim,
    ended,
    event,
    pod,
    router_pod,
    router_status,
    stateful_set,
    waiting,
    worker_status,
)


def of_pod(
    found: Object | None, stateful_set: Object | None, events: Sequence[Object]
) -> trouble.Problem | None:
    return trouble.of_pod(found, stateful_set, events, NOW)


def of_container(container: Object) -> trouble.Problem:
    problem = of_pod(pod(ready=False, container=container), stateful_set(), [])
    assert problem is not None
    return problem


def test_a_pod_that_is_on_its_way_is_no_trouble() -> None:
    assert of_pod(pod(ready=False), stateful_set(), []) is None
    starting = pod(ready=False, container=waiting("ContainerCreating"))
    assert of_pod(starting, stateful_set(), []) is None


@pytest.mark.parametrize(
    "reason",
    [
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "RegistryUnavailable",
    ],
)
def test_an_image_that_cant_be_had_is_told_with_what_to_do(reason: str) -> None:
    problem = of_container(waiting(reason, "not found"))
    assert problem.reason == "ImagePullFailed"
    assert "registry.example/worker:1: not found; correct spec.worker.image" in problem.message
    assert "set spec.worker.imagePullSecrets, then delete the pod" in problem.message


def test_an_image_has_the_same_message_while_the_kubelet_backs_off() -> None:
    first = of_container(waiting("ErrImagePull", "no such manifest"))
    later = of_container(
        waiting("ImagePullBackOff", 'Back-off pulling image "x": ErrImagePull: no such manifest')
    )
    assert first == later


def test_an_image_failure_without_words_is_told_by_its_reason() -> None:
    assert "ImagePullBackOff" in of_container(waiting("ImagePullBackOff")).message


@pytest.mark.parametrize("reason", ["CreateContainerConfigError", "CreateContainerError"])
def test_a_container_that_cant_be_made_is_told_in_the_kubelets_words(reason: str) -> None:
    problem = of_container(waiting(reason, "image has no user"))
    assert (problem.reason, problem.message) == ("WorkerNotStarted", "image has no user")


@pytest.mark.parametrize("code", [code for code in ExitCode if code])
def test_an_exit_code_is_told_by_its_name(code: ExitCode) -> None:
    problem = of_container(ended(code))
    assert problem.reason == "WorkerFailed"
    assert f"exit code {code.value} ({code.name}); see its log" in problem.message


def test_an_exit_code_that_is_not_ours_is_told_as_unknown() -> None:
    assert "exit code 139 (unknown)" in of_container(ended(139)).message


def test_a_worker_that_ended_without_error_is_no_trouble() -> None:
    done = pod(ready=False, container=ended(0))
    assert of_pod(done, stateful_set(), []) is None


def test_a_worker_that_recovered_is_no_trouble_any_more() -> None:
    recovered = pod(ready=False, container={**ended(1), "ready": True})
    assert of_pod(recovered, stateful_set(), []) is None


def test_a_worker_that_ended_just_now_is_told_before_its_earlier_end() -> None:
    now = {"state": {"terminated": {"exitCode": 66, "message": ""}}}
    assert "66 (FENCED)" in of_container({**ended(1), **now}).message


def test_the_last_error_in_the_workers_log_is_the_cause() -> None:
    log = "\n".join(
        [
            json.dumps({"event": "failed", "reason": "BrokerUnavailable", "error": "earlier"}),
            json.dumps({"event": "failed", "reason": "IdentityRefused", "error": "other volume"}),
            json.dumps({"event": "stopped"}),
            json.dumps({"reason": "HasNoError"}),
            json.dumps(["a", "list"]),
            "Segmentation fault",
        ]
    )
    problem = of_container(ended(65, log))
    assert problem.reason == "IdentityRefused"
    assert problem.message.endswith("exit code 65 (IDENTITY_REFUSED): other volume")


def test_a_worker_killed_for_its_memory_says_which_bound_to_raise() -> None:
    problem = of_container(ended(137, reason="OOMKilled"))
    assert problem.reason == "OutOfMemory"
    assert "spec.worker.resources.limits.memory" in problem.message


def test_another_container_of_the_pod_is_not_the_worker() -> None:
    problem = of_container({**ended(1), "name": "sidecar"})
    assert problem.reason == "SidecarFailed"
    assert "worker" not in problem.message.split("; correct")[0]


def test_a_pod_no_node_takes_is_told_in_the_schedulers_words() -> None:
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}
    problem = of_pod(pod(ready=False, conditions=(unscheduled,)), None, [])
    assert problem is not None
    assert problem.reason == "Unschedulable"
    assert problem.message == (
        "0/3 nodes; add nodes, lower spec.worker.resources, or change where spec.worker lets pods run"
    )


def test_a_pod_that_was_scheduled_is_not_unschedulable() -> None:
    scheduled = {"type": "PodScheduled", "status": "True"}
    assert of_pod(pod(ready=False, conditions=(scheduled,)), None, []) is None


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ('pods "orders-0-0" is forbidden: exceeded quota: small', "QuotaExceeded"),
        ('violates PodSecurity "restricted:latest": runAsNonRoot', "PodSecurityViolated"),
        ('admission webhook "policy.example" denied the request: no', "AdmissionDenied"),
        ('User "x" cannot create resource "pods"', "Forbidden"),
    ],
)
def test_a_pod_that_may_not_be_created_is_told_by_its_cause(message: str, reason: str) -> None:
    problem = of_pod(None, stateful_set(), [event("FailedCreate", message)])
    assert problem is not None
    assert problem.reason == reason
    assert message in problem.message


@pytest.mark.parametrize(
    ("requested", "advice"),
    [
        ("requests.cpu=1,requests.memory=1Gi", ", or lower spec.worker.resources"),
        ("requests.storage=20Gi", ", or lower spec.storage.size"),
        ("gp3.storageclass.storage.k8s.io/requests.storage=20Gi", ", or lower spec.storage.size"),
        ("count/configmaps=1", ""),
        ("persistentvolumeclaims=1", ""),
    ],
)
def test_advice_on_a_quota_is_about_what_exceeds_it(requested: str, advice: str) -> None:
    message = f"exceeded quota: small, requested: {requested}, used: {requested}, limited: 0"
    problem = trouble.with_advice("QuotaExceeded", message)
    assert problem.message == f"{message}; raise the namespace's ResourceQuota{advice}"


def test_of_thousands_of_partitions_the_cause_has_a_place() -> None:
    full = trouble.Problem(reason="DiskFull", message="the volume is full")
    every_second = trouble.by_cause(dict.fromkeys(range(0, 10_000, 2), full))
    assert [each.message for each in every_second] == [
        f"partitions {', '.join(map(str, range(0, 40, 2)))}, and 4980 more: the volume is full"
    ]
    (together,) = trouble.by_cause(dict.fromkeys(range(10_000), full))
    assert together.message == "partitions 0-9999: the volume is full"


def test_the_newest_event_tells_the_cause() -> None:
    events = [
        event("FailedCreate", "exceeded quota: new", minute=9),
        event("FailedCreate", "admission webhook denied the request", minute=1),
        event("SuccessfulCreate", "created", minute=10),
    ]
    problem = of_pod(None, stateful_set(), events)
    assert problem is not None
    assert problem.reason == "QuotaExceeded"


def test_a_pod_that_is_not_wanted_or_not_refused_is_no_trouble() -> None:
    refused = [event("FailedCreate", "exceeded quota: small")]
    assert of_pod(None, None, refused) is None
    assert of_pod(None, stateful_set(replicas=0), refused) is None
    assert of_pod(None, stateful_set(), []) is None


@pytest.mark.parametrize("reason", ["FailedMount", "FailedAttachVolume"])
def test_a_volume_that_cant_be_mounted_is_told_in_the_drivers_words(reason: str) -> None:
    problem = of_pod(pod(ready=False), stateful_set(), [event(reason, "timed out")])
    assert problem is not None
    assert (problem.reason, problem.message) == ("VolumeNotMounted", "timed out")


def test_a_young_pod_is_given_time_for_its_node_and_its_volume() -> None:
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}
    young = NOW - timedelta(seconds=1)
    assert of_pod(pod(ready=False, conditions=(unscheduled,), created=young), None, []) is None
    failed = [event("FailedAttachVolume", "still attached elsewhere")]
    assert of_pod(pod(ready=False, created=young), stateful_set(), failed) is None


def test_a_young_pod_has_no_excuse_for_its_image() -> None:
    young = pod(ready=False, container=waiting("ErrImagePull"), created=NOW - timedelta(seconds=1))
    assert of_pod(young, stateful_set(), []) is not None


def test_a_pod_on_its_way_out_is_no_trouble() -> None:
    assert of_pod(pod(ready=False, dying=True, container=ended(1)), stateful_set(), []) is None


@pytest.mark.parametrize(
    ("class_name", "message", "reason", "part"),
    [
        ("gp9", 'storageclass.storage.k8s.io "gp9" not found', "StorageClassMissing", "gp9"),
        (
            None,
            "no persistent volumes available for this claim and no storage class is set",
            "StorageClassMissing",
            "no default StorageClass",
        ),
        ("gp3", "exceeded quota: storage", "QuotaExceeded", "ResourceQuota"),
        ("gp3", "driver is not there", "VolumeNotProvisioned", "driver is not there"),
    ],
)
def test_a_volume_that_cant_be_made_is_told_by_its_cause(
    class_name: str | None, message: str, reason: str, part: str
) -> None:
    pending = claim(phase="Pending", class_name=class_name)
    problem = trouble.of_claim(pending, [event("ProvisioningFailed", message)])
    assert problem is not None
    assert problem.reason == reason
    assert part in problem.message


def test_a_claim_without_a_default_class_says_so() -> None:
    pending = claim(phase="Pending", class_name=None)
    message = "no persistent volumes available for this claim and no storage class is set"
    problem = trouble.of_claim(pending, [event("FailedBinding", message)])
    assert problem is not None
    assert problem.reason == "StorageClassMissing"


def test_a_claim_that_is_bound_or_still_waits_is_no_trouble() -> None:
    failed = [event("ProvisioningFailed", "long ago")]
    assert trouble.of_claim(claim(), failed) is None
    assert trouble.of_claim(None, failed) is None
    waits = [event("WaitForFirstConsumer", "waiting for first consumer")]
    assert trouble.of_claim(claim(phase="Pending"), waits) is None


def test_what_the_worker_says_it_cant_do_is_a_problem() -> None:
    said = worker_status(phase=Phase.FAILED, reason="Fenced", message="another took over")
    assert trouble.of_worker(said) == trouble.Problem(reason="Fenced", message="another took over")
    bare = worker_status(phase=Phase.FAILED, reason="Fenced")
    assert trouble.of_worker(bare) == trouble.Problem(reason="Fenced", message="Fenced")


def test_of_a_full_disk_it_is_told_which_field_makes_room() -> None:
    full = trouble.of_worker(
        worker_status(phase=Phase.FAILED, reason="DiskFull", message="no space")
    )
    assert full is not None
    assert full.message == "no space; raise spec.storage.size"


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RECONCILING, Phase.STOPPING])
def test_a_worker_on_its_way_is_a_problem_only_if_it_says_more_than_a_word(phase: Phase) -> None:
    assert trouble.of_worker(worker_status(phase=phase, reason="Busy")) is None
    stuck = worker_status(phase=phase, reason="BrokerUnavailable", message="no answer")
    assert trouble.of_worker(stuck) is not None


def test_a_worker_that_is_ready_or_silent_is_no_problem() -> None:
    assert trouble.of_worker(None) is None
    assert trouble.of_worker(worker_status(reason="Catching", message="up")) is None
    assert trouble.of_worker(worker_status(phase=Phase.FAILED)) is None


@pytest.mark.parametrize(
    ("container", "reason", "part"),
    [
        (waiting("CreateContainerConfigError", "no Secret"), "RouterNotStarted", "no Secret"),
        (ended(1), "RouterFailed", "the router ended with exit code 1"),
        (
            ended(137, reason="OOMKilled"),
            "OutOfMemory",
            "raise spec.repartition.routers.resources.limits.memory",
        ),
        (waiting("ErrImagePull", "gone"), "ImagePullFailed", "correct spec.worker.image"),
    ],
    ids=["config", "ended", "memory", "image"],
)
def test_a_router_is_told_by_its_own_name_and_fields(
    container: Object, reason: str, part: str
) -> None:
    found = router_pod(ready=False, container=container)
    problem = trouble.of_pod(found, None, [], NOW, trouble.ROUTER)
    assert problem is not None
    assert problem.reason == reason
    assert part in problem.message
    other = trouble.of_pod(found, None, [], NOW)
    assert other is not None
    assert other.reason == "SidecarFailed"


def test_a_router_that_may_not_be_created_names_its_own_resources() -> None:
    refused = event("FailedCreate", "exceeded quota: small, requested: cpu=1, used: 1")
    problem = trouble.of_pod(None, stateful_set(), [refused], NOW, trouble.ROUTER)
    assert problem is not None
    assert "lower spec.repartition.routers.resources" in problem.message


def test_a_router_is_a_problem_only_if_it_is_not_ready_and_says_why() -> None:
    assert trouble.of_router(None) is None
    assert trouble.of_router(router_status()) is None
    problem = trouble.of_router(router_status(reason="NotAuthorized", message="an ACL"))
    assert problem == trouble.Problem(reason="NotAuthorized", message="an ACL")


@pytest.mark.parametrize(
    ("state", "part"),
    [
        ({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}, "no such image"),
        ({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}, "ends repeatedly"),
        ({"terminated": {"exitCode": 3}}, "exit code 3"),
    ],
)
def test_a_sidecar_that_keeps_a_pod_from_being_ready_is_told_by_its_name(
    state: Object, part: str
) -> None:
    found = pod(ready=False)
    (own,) = found["status"]["containerStatuses"]
    own["ready"] = True
    sidecar = {"name": "logs", "image": "logs:1", "ready": False, "state": state}
    found["status"]["containerStatuses"].insert(0, sidecar)
    problem = of_pod(found, stateful_set(), [])
    assert problem is not None
    assert problem.reason == "SidecarFailed"
    assert "container logs" in problem.message
    assert part in problem.message
    own |= {"ready": False, **waiting("ErrImagePull", "gone")}
    first = of_pod(found, stateful_set(), [])
    assert first is not None
    assert first.reason == "ImagePullFailed"


def test_a_sidecar_that_only_starts_is_no_trouble() -> None:
    found = pod(ready=False)
    starts = {"waiting": {"reason": "ContainerCreating"}}
    found["status"]["containerStatuses"].append({"name": "logs", "ready": False, "state": starts})
    assert of_pod(found, stateful_set(), []) is None
