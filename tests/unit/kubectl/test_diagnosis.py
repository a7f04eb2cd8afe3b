"""What is found wrong with a stream."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from dedupe_crds.status.worker import Phase
from dedupe_kubectl.commands.describe_problem import lines
from dedupe_kubectl.diagnosis import Facts, Problem, find
from dedupe_kubectl.objects import Object, read_stream
from dedupe_kubectl.stream_view import StreamView
from tests.unit.kubectl.documents import (
    NOW,
    READY,
    condition,
    event,
    partition,
    pod,
    stream,
    view,
    worker,
    written,
)


def found(
    seen: StreamView, events: Sequence[Object] = (), operators: Sequence[Object] | None = ()
) -> list[Problem]:
    return find(Facts(view=seen, now=NOW, events=events, operators=operators))


def only(problems: list[Problem]) -> Problem:
    assert len(problems) == 1, problems
    return problems[0]


def test_nothing_is_wrong_with_a_stream_that_runs() -> None:
    seen = view(stream(partitions=[partition()]), [pod()], [worker()])
    assert found(seen) == []
    assert lines(seen.stream, []) == ["shop/orders: nothing is wrong"]


def test_an_old_warning_is_no_problem_of_a_stream_that_runs() -> None:
    seen = view(stream(partitions=[partition()]), [pod()], [worker()])
    assert found(seen, [event("orders-0-0", "was unhealthy once")]) == []


def test_nothing_is_wrong_with_a_suspended_stream() -> None:
    not_ready = condition("Ready", "False", "Suspended", "All workers are stopped.")
    document = stream(
        spec={"suspend": True}, conditions=[not_ready], partitions=[partition(phase="Suspended")]
    )
    seen = view(document)
    assert found(seen) == []
    (line,) = lines(seen.stream, [])
    assert "kubectl dedupe resume orders" in line


def test_a_stream_nobody_has_seen_needs_an_operator() -> None:
    seen = view(stream(conditions=[], status={"observedGeneration": None}))
    problem = only(found(seen, operators=[]))
    assert problem.what == "The operator has not processed this stream"
    assert "no operator runs" in problem.why
    assert "no rights to list its pods" in only(found(seen, operators=None)).why
    down = pod(ready=False)
    assert "is not ready" in only(found(seen, operators=[down])).why
    assert "watch.namespaces" in only(found(seen, operators=[pod()])).do


def test_a_stream_of_this_minute_gives_the_operator_time() -> None:
    just_now = written(NOW - timedelta(seconds=20))
    document = stream(conditions=[], metadata={"creationTimestamp": just_now})
    assert found(view(document)) == []


def test_a_change_that_stays_unseen_is_a_problem_and_a_fresh_one_is_not() -> None:
    def changed(seconds_ago: int) -> StreamView:
        time = written(NOW - timedelta(seconds=seconds_ago))
        fields = [{"time": time, "fieldsV1": {"f:spec": {}}}]
        return view(stream(metadata={"generation": 2, "managedFields": fields}))

    assert found(changed(10)) == []
    assert "newest change" in only(found(changed(600))).what


def test_a_status_that_nobody_keeps_up_to_date_is_not_trusted() -> None:
    broken = view(stream(partitions=[partition()]), [pod(ready=False)])
    assert "status is outdated" in only(found(broken, operators=[])).what
    assert "status is outdated" in only(found(broken, operators=[pod(ready=False)])).what
    assert found(broken, operators=[pod()]) == []


def test_a_paused_stream_says_how_to_go_on() -> None:
    pause = {"dedupestream.io/pause-reconciliation": "true"}
    problem = only(found(view(stream(metadata={"annotations": pause, "generation": 2}))))
    assert problem.do == (
        "kubectl annotate -n shop dedupestream orders dedupestream.io/pause-reconciliation-"
    )


def test_a_deletion_that_does_not_end_names_the_finalizers_that_hold_it() -> None:
    def deleted(minutes_ago: int, *finalizers: str) -> StreamView:
        time = written(NOW - timedelta(minutes=minutes_ago))
        metadata = {"deletionTimestamp": time, "finalizers": finalizers, "generation": 2}
        return view(stream(metadata=metadata))

    assert found(deleted(1, "example.com/audit")) == []
    assert found(deleted(10)) == []
    assert "example.com/audit" in only(found(deleted(10, "example.com/audit"))).why


@pytest.mark.parametrize(
    ("type_", "bad", "reason", "do"),
    [
        ("Degraded", "True", "TopicMissing", "create the input topic"),
        ("WindowHealthy", "False", "TooShort", ""),
        ("GuaranteesMet", "False", "MissingIds", ""),
        ("InputPartitionsAdded", "True", "InputPartitionsAdded", ""),
        ("InputPartitioning", "False", "NoKeys", ""),
        ("SnapshotsHealthy", "False", "Unheard", ""),
        ("SnapshotsHealthy", "False", "InvalidSchedule", "correct spec.snapshots.schedule"),
        ("SnapshotsHealthy", "False", "LastSnapshotFailed", "fix what the message names"),
        ("SnapshotsHealthy", "False", "SnapshotOverdue", "see what blocks it"),
        ("Ready", "False", "PartitionsNotReady", ""),
    ],
)
def test_a_condition_that_is_bad_is_told_with_its_reason(
    type_: str, bad: str, reason: str, do: str
) -> None:
    problem = only(found(view(stream(conditions=[condition(type_, bad, reason, "because.")]))))
    assert problem.why == f"{reason}: because."
    assert problem.do.startswith(do)
    assert bool(problem.do) == bool(do), "a message that says what to do is not repeated"


def test_an_unknown_condition_is_no_problem() -> None:
    conditions = [*READY, condition("SnapshotsHealthy", "Unknown", "NoSnapshotYet")]
    assert found(view(stream(conditions=conditions))) == []


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
    problem = only(found(view(document, [pod(ready=False)], [waits])))
    assert problem.what == "Partition 0: its worker waits"
    assert problem.do == "raise spec.storage.size"


@pytest.mark.parametrize(
    ("reason", "do"),
    [
        ("BucketRefused", "spec.snapshots.s3"),
        ("BucketUnavailable", "spec.snapshots.s3.endpoint"),
        ("IdentityRefused", "its own volume"),
        ("RestoreFailed", "kubectl dedupe snapshots STREAM"),
    ],
)
def test_what_keeps_a_restore_is_told_with_what_to_do(reason: str, do: str) -> None:
    waits = worker(phase=Phase.FAILED, reason=reason, message="why")
    seen = view(stream(partitions=[partition(phase="Restoring")]), [pod(ready=False)], [waits])
    problem = only(found(seen))
    assert problem.why == f"{reason}: why"
    assert do in problem.do


def test_the_same_problem_of_many_partitions_is_one() -> None:
    pulled = "image worker:bad: not found; correct spec.worker.image"
    failed = [partition(number, "Failed", message=pulled) for number in range(3)]
    workers = [worker(3, phase=Phase.FAILED, reason="Fenced", message="m")]
    document = stream(partitions=[*failed, partition(3, "Failed")])
    problems = found(view(document, [pod(3)], workers))
    assert [one.what for one in problems] == [
        "Partitions 0-2: it is not ready (Failed)",
        "Partition 3: its worker waits",
    ]
    assert problems[0].why == pulled


def test_the_operators_finding_has_its_reason_of_the_condition_and_advice() -> None:
    message = "volume is on another node"
    degraded = condition(
        "Degraded",
        "True",
        "VolumeNotMounted",
        "Partitions 0-1, 4, and 12 more: volume is on another node.",
    )
    told = [partition(number, "Failed", message=message) for number in (0, 1)]
    problem = only(found(view(stream(conditions=[degraded], partitions=told))))
    assert problem.why == "VolumeNotMounted: volume is on another node"
    assert problem.do == "fix what the message names"


def test_the_reason_of_another_problem_is_not_taken_for_a_partitions() -> None:
    degraded = condition(
        "Degraded",
        "True",
        "SecretMissing",
        "Secret shop/s is not there. Partition 0: No node takes the pod. And 2 more.",
    )
    told = [partition(phase="Failed", message="no node takes the pod")]
    of_stream, of_partition = found(view(stream(conditions=[degraded], partitions=told)))
    assert of_stream.why == "Secret shop/s is not there."
    assert of_partition.why == "no node takes the pod"


def test_a_worker_that_runs_again_says_more_than_the_operators_older_word() -> None:
    told = partition(phase="Failed", message="the worker ended with exit code 1")
    assert found(view(stream(partitions=[told]), [pod()], [worker()])) == []


def test_a_window_that_is_too_short_is_told_by_the_worker_or_by_the_stream() -> None:
    def forgetful(*conditions: Object) -> StreamView:
        document = stream(conditions=conditions, partitions=[partition()])
        return view(document, [pod()], [worker(healthy=False)])

    assert only(found(forgetful(*READY))).what == "Partition 0: it forgets ids too soon"
    too_short = condition("WindowHealthy", "False", "TooShort", "Ids are given up.")
    assert only(found(forgetful(too_short))).what == "Ids are forgotten too soon"


def test_fresh_warnings_of_a_partitions_objects_stand_beside_what_is_wrong_with_it() -> None:
    old = event("orders-1-0", "old")
    old["lastTimestamp"] = written(NOW - timedelta(hours=1))
    events = [
        event("orders-1-0", "ours"),
        event("orders-1-0", "ours"),
        event("orders-1", "our set", kind="StatefulSet", reason="FailedCreate"),
        event("orders-1-1", "our volume", kind="PersistentVolumeClaim"),
        event("orders-10-0", "of partition 10"),
        event("orders-1-eu-0-0", "of stream orders-1-eu"),
        event("orders-1-eu-0-1", "its volume", kind="PersistentVolumeClaim"),
        old,
    ]
    shown = ("Failed: ours", "FailedCreate: our set", "Failed: our volume")
    failed = view(stream(partitions=[partition(1, "Failed", message="m")]))
    assert only(found(failed, events)).events == shown
    unready = condition("Ready", "False", "PartitionsNotReady")
    silent = view(stream(conditions=[unready], partitions=[partition(1, "Provisioning")]))
    assert only(found(silent, events)).events == shown


def test_a_pod_on_its_way_is_no_problem() -> None:
    rolling = [condition("Progressing", "True", "RollingOut"), *READY]
    document = stream(conditions=rolling, partitions=[partition(phase="Reconciling")])
    reconciling = worker(phase=Phase.RECONCILING)
    events = [event("orders-0-0", "of the pod before", reason="BackOff")]
    assert found(view(document, [pod(ready=False)], [reconciling]), events) == []
    assert found(view(document), events) == []


def test_a_problem_is_written_with_why_and_what_to_do() -> None:
    problem = Problem(what="W", why="Y", do="D", events=("E",))
    written_lines = lines(read_stream(stream()), [problem, problem])
    assert written_lines[:6] == [
        "shop/orders: 2 problems", "", "1. W", "   why: Y", "   do:  D", "   event: E"
    ]  # fmt: skip
