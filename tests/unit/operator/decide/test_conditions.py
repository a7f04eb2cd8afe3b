"""Conditions: each reason, and when a condition last changed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from dedupe_crds.status.stream import Condition
from dedupe_crds.status.worker import DegradedReason, WorkerStatus
from dedupe_kafka.partitioning import Partitioning, PartitioningReason
from dedupe_operator.decide import conditions, unreconciled
from dedupe_operator.decide.conditions import Health
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.verdict import Verdict
from dedupe_worker.status import WorkerState
from tests.unit.operator.objects import EARLIER, NOW, condition, partition_status, stream

READY = [partition_status(0), partition_status(1)]
HALF = [partition_status(0), partition_status(1, ready=False)]
PROBLEM = Problem(reason="DiskFull", message="partition 1: make room")
OTHER = Problem(reason="Unschedulable", message="add nodes")


def judged(earlier: Sequence[Condition] = (), **known: Any) -> dict[str, Condition]:  # noqa: ANN401
    health = Health(**{"partitions": READY, "problems": (), **known})
    told = conditions.judge(health, generation=3, earlier=earlier, now=NOW)
    assert len({one.type for one in told}) == len(told)
    return {one.type: one for one in told}


def degraded(*reasons: str) -> WorkerStatus:
    """A worker that runs, and reports these."""
    status = WorkerState(stream(), 0).status()
    listed = [
        DegradedReason(reason=each, message=f"{each} it is", first_seen=NOW, last_seen=NOW)
        for each in reasons
    ]
    return status.model_copy(update={"degraded": listed})


@pytest.mark.parametrize(
    ("workers", "status", "reason", "message"),
    [
        ({}, "Unknown", "NoWorkerAnswers", "No worker answers."),
        ({0: degraded()}, "True", "AsExpected", "Every guarantee is kept."),
        ({0: degraded("WindowShortened")}, "True", "AsExpected", "Every guarantee is kept."),
        (
            {0: degraded("MissingIds"), 1: degraded("InputExpired", "MissingIds"), 2: degraded()},
            "False",
            "InputExpired",
            "InputExpired in partition 1: InputExpired it is. MissingIds in partitions 0-1: MissingIds it is.",
        ),
    ],
)
def test_what_workers_report_while_they_run_is_a_condition(
    workers: dict[int, WorkerStatus], status: str, reason: str, message: str
) -> None:
    told = judged(workers=workers)
    found = told["GuaranteesMet"]
    assert (found.status, found.reason, found.message) == (status, reason, message)
    assert (told["Ready"].status, told["Degraded"].status) == ("True", "False")


def test_what_many_workers_report_is_not_cut_off_silently() -> None:
    workers = {number: degraded(f"Reason{number}") for number in range(7)}
    message = judged(workers=workers)["GuaranteesMet"].message
    assert message.count("it is.") == 5
    assert message.endswith(" And 2 more.")


@pytest.mark.parametrize(
    ("kind", "known", "status", "reason", "part"),
    [
        ("Ready", {}, "True", "AllPartitionsReady", "2 of 2 partitions are ready."),
        ("Ready", {"partitions": HALF}, "False", "PartitionsNotReady", "1 of 2 partitions"),
        ("Ready", {"partitions": []}, "False", "PartitionsNotReady", "0 of 0"),
        (
            "Ready",
            {"partitions": HALF, "problems": [PROBLEM, OTHER]},
            "False",
            "DiskFull",
            "1 of 2 partitions are ready. Partition 1: make room.",
        ),
        ("Ready", {"problems": [PROBLEM]}, "True", "AllPartitionsReady", "2 of 2"),
        ("Ready", {"suspended": True}, "False", "Suspended", "spec.suspend"),
        ("Progressing", {}, "False", "UpToDate", "match the spec"),
        (
            "Progressing",
            {"waiting": [3, 1, 2]},
            "True",
            "RollingOut",
            "partitions 1-3 not changed yet",
        ),
        (
            "Progressing",
            {"starting": [1]},
            "True",
            "Starting",
            "Waiting for partition 1 to be ready.",
        ),
        (
            "Progressing",
            {"waiting": [1], "starting": [0], "problems": [PROBLEM]},
            "False",
            "RolloutHeldBack",
            "The rollout waits before partition 1. Partition 1: make room.",
        ),
        (
            "Progressing",
            {"starting": [0], "problems": [PROBLEM]},
            "False",
            "DiskFull",
            "Waiting for partition 0.",
        ),
        ("Degraded", {}, "False", "AsExpected", "Nothing is wrong."),
        ("Degraded", {"problems": [PROBLEM]}, "True", "DiskFull", "Partition 1: make room."),
        ("WindowHealthy", {}, "Unknown", "NoWorkerAnswers", "No worker"),
        ("WindowHealthy", {"unhealthy_windows": []}, "True", "LongEnough", "alertBelow"),
        (
            "WindowHealthy",
            {"unhealthy_windows": [0, 1, 5]},
            "False",
            "TooShort",
            "partitions 0-1, 5: raise spec.store.window.maxBytes",
        ),
        ("ReconciliationPaused", {}, "False", "Active", "reconciles the stream"),
        (
            "SnapshotsHealthy",
            {
                "snapshots": Verdict(
                    "SnapshotsHealthy", holds=None, reason="NoSnapshotYet", message="None yet."
                )
            },
            "Unknown",
            "NoSnapshotYet",
            "None yet.",
        ),
        (
            "SnapshotsHealthy",
            {
                "snapshots": Verdict(
                    "SnapshotsHealthy",
                    holds=False,
                    reason="LastSnapshotFailed",
                    message="It failed.",
                )
            },
            "False",
            "LastSnapshotFailed",
            "It failed.",
        ),
    ],
)
def test_a_condition_has_its_reason(
    kind: str, known: dict[str, Any], status: str, reason: str, part: str
) -> None:
    one = judged(**known)[kind]
    assert (one.status.value, one.reason) == (status, reason)
    assert part in one.message
    assert one.observed_generation == 3


def test_snapshots_are_judged_only_where_they_are_wanted() -> None:
    assert "SnapshotsHealthy" not in judged()


def test_each_cause_is_told_once_and_the_first_five() -> None:
    problems = [Problem(reason=f"R{n}", message=f"cause {n}") for n in (1, 1, 2, 3, 4, 5, 6, 7)]
    one = judged(problems=problems)["Degraded"]
    assert one.reason == "R1"
    assert one.message == "Cause 1. Cause 2. Cause 3. Cause 4. Cause 5. And 2 more."


def test_five_causes_are_told_without_more() -> None:
    problems = [Problem(reason="R", message=f"cause {n}") for n in range(5)]
    assert judged(problems=problems)["Degraded"].message.endswith("Cause 4.")


def test_what_routers_do_is_said_of_the_present_manifest() -> None:
    """A stream that gets a second input has had the same reason before."""
    workers = {0: degraded()}
    one, two = (
        Partitioning(PartitioningReason.BY_ID, True, text, by_routers=True)
        for text in ("routers send", "routers send. Ids must be unique")
    )
    earlier = judged(partitioning=one, workers=workers)["InputPartitioning"]

    found = judged([earlier], partitioning=two, workers=workers)["InputPartitioning"]

    assert found.message == "Routers send. Ids must be unique."


def test_a_message_is_bounded() -> None:
    one = judged(problems=[Problem(reason="R", message="x" * 9999)])["Degraded"]
    assert len(one.message) == 4096


def test_a_transition_time_is_kept_while_the_status_is_the_same() -> None:
    earlier = [condition("Ready", "False", "Other"), condition("Degraded", "True")]
    told = judged(earlier, partitions=HALF)
    assert told["Ready"].last_transition_time == EARLIER
    assert told["Ready"].reason == "PartitionsNotReady"
    assert told["Degraded"].last_transition_time == NOW
    assert told["Progressing"].last_transition_time == NOW


def paused(earlier: list[Condition], now: datetime = NOW) -> list[Condition]:
    return unreconciled.paused(generation=4, earlier=earlier, now=now, ready=2, partitions=2)


def test_a_pause_is_told_and_what_is_not_judged_is_unknown() -> None:
    earlier = [
        condition("Ready", "False"),
        condition("ReconciliationPaused", "False"),
        condition("GuaranteesMet", "True"),
    ]
    pause, ready, guarantees = paused(earlier)
    assert (ready.status.value, ready.reason) == ("True", "AllPartitionsReady")
    assert (guarantees.status.value, guarantees.reason) == ("Unknown", "ReconciliationPaused")
    assert (pause.type, pause.status.value, pause.reason) == (
        "ReconciliationPaused",
        "True",
        "Annotated",
    )
    assert "dedupestream.io/pause-reconciliation" in pause.message
    assert pause.last_transition_time == NOW


def test_a_pause_told_again_is_the_same() -> None:
    first = paused([condition("GuaranteesMet", "True")], EARLIER)
    assert paused(first) == first


def test_a_paused_stream_is_ready_as_its_pods_are() -> None:
    half = unreconciled.paused(generation=4, earlier=[], now=NOW, ready=1, partitions=2)
    assert [(each.type, each.status.value) for each in half[1:]] == [("Ready", "False")]
    assert "1 of 2" in half[1].message
    stopped = unreconciled.paused(generation=4, earlier=[], now=NOW, ready=None, partitions=2)
    assert stopped[1].reason == "Suspended"


def test_workers_that_do_not_match_the_spec_are_said_to_be_reconciled() -> None:
    assert judged()["Reconciling"].status.value == "False"
    for change in ({"waiting": [1]}, {"starting": [0]}, {"routers_change": True}):
        assert judged(**change)["Reconciling"].status.value == "True"


def test_ready_is_about_the_generation_that_all_workers_run() -> None:
    before = condition("Ready", "True").model_copy(update={"observed_generation": 2})
    told = judged([before], waiting=[1])
    assert (told["Ready"].status.value, told["Ready"].observed_generation) == ("True", 2)
    assert told["Progressing"].observed_generation == judged()["Ready"].observed_generation == 3


def test_a_manifest_that_cant_be_read_is_told_and_leaves_the_other_conditions() -> None:
    earlier = [condition("Ready", "True"), condition("WindowHealthy", "True")]
    refusal = Problem(reason="InvalidManifest", message="no such field")
    told = unreconciled.refused(refusal, generation=4, earlier=earlier, now=NOW)
    assert {(one.type, one.status.value, one.reason) for one in told} == {
        ("Ready", "False", "InvalidManifest"),
        ("Degraded", "True", "InvalidManifest"),
        ("Stalled", "True", "InvalidManifest"),
        ("WindowHealthy", "True", "Reason"),
    }
    assert {one.message for one in told[:2]} == {"no such field"}


def test_sentences_end_once() -> None:
    told = judged(problems=[Problem(reason="R", message="stop! "), Problem(reason="R", message="")])
    assert told["Degraded"].message == "Stop! ."
