"""What is found wrong with a stream."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from dedupe_crds.worker_status import ExitCode, Phase
from dedupe_kubectl.describe import lines
from dedupe_kubectl.look import Look
from dedupe_kubectl.objects import Object, read_stream
from dedupe_kubectl.problems import Facts, Problem, find
from dedupe_kubectl.worker_problems import related
from tests.unit.kubectl.documents import (
    NOW,
    READY,
    condition,
    ended_pod,
    event,
    look,
    partition,
    pod,
    stream,
    waiting_pod,
    worker,
    written,
)


def found(
    seen: Look, events: Sequence[Object] = (), operators: Sequence[Object] | None = ()
) -> list[Problem]:
    return find(Facts(look=seen, now=NOW, events=events, operators=operators))


def only(problems: list[Problem]) -> Problem:
    assert len(problems) == 1, problems
    return problems[0]


def test_nothing_is_wrong_with_a_stream_that_runs() -> None:
    seen = look(stream(partitions=[partition()]), [pod()], [worker()])
    assert found(seen) == []
    assert lines(seen.stream, []) == ["shop/orders: nothing is wrong"]


def test_an_old_warning_is_no_problem_of_a_stream_that_runs() -> None:
    seen = look(stream(partitions=[partition()]), [pod()], [worker()])
    assert found(seen, [event("orders-0-0", "was unhealthy once")]) == []


def test_nothing_is_wrong_with_a_suspended_stream() -> None:
    not_ready = condition("Ready", "False", "Suspended", "All workers are stopped.")
    document = stream(
        spec={"suspend": True}, conditions=[not_ready], partitions=[partition(phase="Suspended")]
    )
    seen = look(document)
    assert found(seen) == []
    (line,) = lines(seen.stream, [])
    assert "kubectl dedupe resume orders" in line


def test_a_stream_nobody_has_seen_needs_an_operator() -> None:
    seen = look(stream(conditions=[], status={"observedGeneration": None}))
    problem = only(found(seen, operators=[]))
    assert problem.what == "The operator has not seen this stream"
    assert "no operator runs" in problem.why
    assert "may not see" in only(found(seen, operators=None)).why
    down = pod(ready=False)
    assert "is not ready" in only(found(seen, operators=[down])).why
    assert "watch.namespaces" in only(found(seen, operators=[pod()])).do


def test_a_stream_of_this_minute_gives_the_operator_time() -> None:
    just_now = written(NOW - timedelta(seconds=20))
    document = stream(conditions=[], metadata={"creationTimestamp": just_now})
    assert found(look(document)) == []


def test_a_change_that_stays_unseen_is_a_problem_and_a_fresh_one_is_not() -> None:
    def changed(seconds_ago: int) -> Look:
        time = written(NOW - timedelta(seconds=seconds_ago))
        fields = [{"time": time, "fieldsV1": {"f:spec": {}}}]
        return look(stream(metadata={"generation": 2, "managedFields": fields}))

    assert found(changed(10)) == []
    assert "newest change" in only(found(changed(600))).what


def test_a_paused_stream_says_how_to_go_on() -> None:
    pause = {"dedupestream.io/pause-reconciliation": "true"}
    problem = only(found(look(stream(metadata={"annotations": pause, "generation": 2}))))
    assert problem.do == (
        "kubectl annotate -n shop dedupestream orders dedupestream.io/pause-reconciliation-"
    )


def test_a_deletion_that_does_not_end_is_a_problem() -> None:
    for minutes, problems in ((1, 0), (10, 1)):
        since = written(NOW - timedelta(minutes=minutes))
        seen = look(stream(metadata={"deletionTimestamp": since}))
        assert len(found(seen)) == problems


@pytest.mark.parametrize(
    ("type_", "bad", "reason", "do"),
    [
        ("Degraded", "True", "TopicMissing", "create the input topic"),
        ("WindowHealthy", "False", "TooShort", "spec.store.window.maxBytes"),
        ("SnapshotsHealthy", "False", "Unheard", "what the line above says"),
        ("Ready", "False", "PartitionsNotReady", "what the line above says"),
    ],
)
def test_a_condition_that_is_bad_is_told_with_its_reason(
    type_: str, bad: str, reason: str, do: str
) -> None:
    problem = only(found(look(stream(conditions=[condition(type_, bad, reason, "because.")]))))
    assert problem.why == f"{reason}: because."
    assert do in problem.do


def test_an_unknown_condition_is_no_problem() -> None:
    conditions = [*READY, condition("SnapshotsHealthy", "Unknown", "NotAvailable")]
    assert found(look(stream(conditions=conditions))) == []


def test_what_a_partition_says_is_not_said_again_by_the_stream() -> None:
    message = "the volume is full; raise spec.storage.size"
    conditions = [
        condition("Ready", "False", "DiskFull", f"0 of 1 partitions are ready. {message}."),
        condition("Degraded", "True", "DiskFull", f"{message.capitalize()}."),
    ]
    document = stream(
        conditions=conditions, partitions=[partition(phase="Failed", message=message)]
    )
    waits = worker(phase=Phase.FAILED, reason="DiskFull", message=message)
    problem = only(found(look(document, [pod(ready=False)], [waits])))
    assert problem.what == "Partition 0: its worker waits"
    assert problem.do == "raise spec.storage.size"


def test_the_same_problem_of_many_partitions_is_one() -> None:
    document = stream(partitions=[partition(number, "Failed") for number in range(4)])
    pods = [waiting_pod(number, "ImagePullBackOff", "not found") for number in (0, 1, 2)]
    workers = [worker(3, phase=Phase.FAILED, reason="Fenced", message="m")]
    problems = found(look(document, [*pods, pod(3)], workers))
    assert [one.what for one in problems] == [
        "Partitions 0-2: its image cannot be pulled",
        "Partition 3: its worker waits",
    ]
    assert problems[0].why == "worker:bad: not found"
    assert "spec.worker.image" in problems[0].do


def test_a_pod_no_node_takes_says_why() -> None:
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes: no memory"}
    pending = pod(ready=False, phase="Pending", conditions=[unscheduled])
    problem = only(found(look(stream(partitions=[partition(phase="Provisioning")]), [pending])))
    assert (problem.why, "add nodes" in problem.do) == ("0/3 nodes: no memory", True)


@pytest.mark.parametrize(
    ("ended", "why"),
    [
        (ended_pod(0, 137, "OOMKilled"), "limits.memory"),
        (ended_pod(0, ExitCode.FENCED), "a newer worker"),
        (ended_pod(0, ExitCode.IDENTITY_REFUSED), "another stream or partition"),
        (ended_pod(0, 1), "exit code 1"),
    ],
)
def test_a_worker_that_ends_again_and_again_says_how(ended: Object, why: str) -> None:
    document = stream(partitions=[partition(phase="Failed")])
    assert why in only(found(look(document, [ended]))).why


def test_what_the_operator_found_comes_before_what_a_pod_shows() -> None:
    message = "there is no StorageClass fast"
    degraded = condition(
        "Degraded", "True", "StorageClassMissing", "Partitions 0, 1: There is no StorageClass fast."
    )
    told = [partition(number, "Failed", message=message) for number in (0, 1)]
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "unbound claims"}
    pods = [pod(number, ready=False, conditions=[unscheduled]) for number in (0, 1)]
    problem = only(found(look(stream(conditions=[degraded], partitions=told), pods)))
    assert (problem.what, problem.why) == ("Partitions 0-1: it is not ready (Failed)", message)
    assert problem.do.startswith("create the storage class")


def test_a_missing_pod_is_explained_by_the_events_of_its_stateful_set() -> None:
    seen = look(stream(partitions=[partition(phase="Provisioning")]))
    refused = event("orders-0", "exceeded quota: small", kind="StatefulSet", reason="FailedCreate")
    problem = only(found(seen, [refused]))
    assert (problem.what, problem.why) == ("Partition 0: it has no pod", "exceeded quota: small")
    assert problem.events == ("FailedCreate: exceeded quota: small",)
    assert "nothing says why" in only(found(seen)).why


def test_a_pod_that_is_being_replaced_is_no_problem() -> None:
    rolling = [condition("Progressing", "True", "RollingOut"), *READY]
    seen = look(stream(conditions=rolling, partitions=[partition(phase="Provisioning")]))
    assert found(seen) == []
    assert found(seen, [event("orders-0-0", "of the pod before", reason="BackOff")]) == []


def test_an_event_of_long_ago_explains_nothing() -> None:
    seen = look(stream(partitions=[partition(phase="Provisioning")]))
    refused = event("orders-0", "old", kind="StatefulSet", reason="FailedCreate")
    refused["lastTimestamp"] = written(NOW - timedelta(hours=1))
    assert "nothing says why" in only(found(seen, [refused])).why


def test_a_volume_that_is_not_mounted_is_explained_by_events() -> None:
    seen = look(stream(partitions=[partition(phase="Provisioning")]), [pod(ready=False)])
    unmounted = event("orders-0-0", "volume is on another node", reason="FailedMount")
    problem = only(found(seen, [unmounted]))
    assert (problem.what, problem.why) == (
        "Partition 0: its pod does not start",
        "volume is on another node",
    )


def test_pods_the_user_may_not_see_are_not_missing() -> None:
    seen = Look(
        stream=read_stream(stream(partitions=[partition()])), pods={}, workers={}, pods_known=False
    )
    assert found(seen) == []


def test_a_pod_on_its_way_is_no_problem() -> None:
    document = stream(partitions=[partition(phase="Reconciling")])
    reconciling = worker(phase=Phase.RECONCILING)
    assert found(look(document, [pod(ready=False)], [reconciling])) == []


def test_events_of_another_stream_with_a_longer_name_are_not_ours() -> None:
    events = [
        event("orders-1-0", "ours"),
        event("orders-10-0", "of partition 10"),
        event("orders-1-1", "our volume", kind="PersistentVolumeClaim"),
        event("orders-1-eu-0-0", "of stream orders-1-eu"),
        event("orders-1-eu-0-1", "its volume", kind="PersistentVolumeClaim"),
    ]
    assert {one["message"] for one in related(events, "orders", 1)} == {"ours", "our volume"}


def test_a_problem_is_written_with_why_and_what_to_do() -> None:
    problem = Problem(what="W", why="Y", do="D", events=("E",))
    written_lines = lines(read_stream(stream()), [problem, problem])
    assert written_lines[:6] == [
        "shop/orders: 2 problems", "", "1. W", "   why: Y", "   do:  D", "   event: E"
    ]  # fmt: skip
