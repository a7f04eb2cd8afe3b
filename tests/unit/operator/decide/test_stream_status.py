"""The status of a stream, and its events."""

from datetime import timedelta

import pytest

from dedupe_crds.status.stream import Condition, RoutersInput, RoutersStatus
from dedupe_crds.status.worker import Counts, WorkerStatus
from dedupe_operator.decide.stream_status import assemble, condition_events, differs_only_in_numbers
from tests.unit.operator.objects import NOW, condition, partition_status, worker_status


def test_a_streams_figures_are_its_partitions_together() -> None:
    status = assemble(
        generation=3,
        conditions=[],
        partitions=[
            partition_status(0, window=timedelta(days=3), duplicates=1, lag_messages=10),
            partition_status(1, window=timedelta(days=2), duplicates=2, lag_messages=20),
            partition_status(2, ready=False),
        ],
    )
    assert status.observed_generation == 3
    assert status.partitions_ready == "2/3"
    assert status.window == timedelta(days=2)
    assert (status.duplicates, status.lag_messages) == (3, 30)


def test_a_stream_of_which_nothing_is_known_claims_nothing() -> None:
    status = assemble(generation=1, conditions=[], partitions=[])
    assert (status.partitions_ready, status.window) == (None, None)
    assert (status.duplicates, status.lag_messages) == (None, None)


def test_the_lag_is_that_of_routers_and_workers() -> None:
    inputs = [RoutersInput(topic=name, lag_messages=lag) for name, lag in (("a", 5), ("b", None))]
    routers = RoutersStatus(replicas=1, inputs=inputs)
    partitions = [partition_status(0, lag_messages=10), partition_status(1)]
    status = assemble(generation=1, conditions=[], partitions=partitions, routers=routers)
    assert status.lag_messages == 15
    assert status.routers == routers


def worker_with(consumed: int, duplicates: int) -> WorkerStatus:
    counts = Counts(consumed=consumed, duplicates=duplicates)
    return worker_status(0).model_copy(update={"counts": counts})


def test_the_share_of_duplicates_is_that_of_all_workers_together() -> None:
    def share(*workers: WorkerStatus) -> str | None:
        return assemble(
            generation=1, conditions=[], partitions=[], workers=workers
        ).duplicates_share

    assert share(worker_with(1000, 100), worker_with(3000, 0)) == "2%"
    assert share(worker_with(0, 0)) is None
    assert share() is None


def test_another_share_of_duplicates_alone_is_no_news() -> None:
    old, new = (
        assemble(generation=1, conditions=[], partitions=[], workers=[worker_with(100, number)])
        for number in (1, 2)
    )
    assert old != new
    assert differs_only_in_numbers(old, new)


def test_the_reason_is_that_of_the_most_important_problem() -> None:
    def reason(*judged: Condition) -> str | None:
        return assemble(generation=1, conditions=[*judged], partitions=[]).reason

    well = condition("Ready", "True", "AllPartitionsReady")
    down = condition("Ready", "False", "PartitionsNotReady")
    full = condition("Degraded", "True", "DiskFull")
    assert reason(well, condition("Degraded", "False", "AsExpected")) is None
    assert reason(well, condition("WindowHealthy", "Unknown", "NoWorkerAnswers")) is None
    assert reason(well, full) == "DiskFull"
    assert reason(down, condition("SnapshotsHealthy", "False", "Late"), full) == "DiskFull"
    assert reason(down) == "PartitionsNotReady"
    paused = condition("ReconciliationPaused", "True", "Annotated")
    assert reason(down, paused) == "ReconciliationPaused"


def test_figures_alone_are_no_news() -> None:
    def status(**known: object) -> object:
        return assemble(
            generation=1,
            conditions=[condition("Ready", "True")],
            partitions=[partition_status(0, **known)],
        )

    old = status(window=timedelta(days=2), duplicates=5, lag_messages=1)
    assert differs_only_in_numbers(old, status(window=timedelta(days=3), duplicates=6))  # type: ignore[arg-type] # built above
    assert not differs_only_in_numbers(old, status(ready=False))  # type: ignore[arg-type] # as above
    assert not differs_only_in_numbers(old, status(window_truncated=True))  # type: ignore[arg-type] # as above


def test_the_first_figure_of_its_kind_is_news_and_its_absence_is_not() -> None:
    unknown, known = (
        assemble(generation=1, conditions=[], partitions=[partition_status(0, lag_messages=lag)])
        for lag in (None, 0)
    )
    assert not differs_only_in_numbers(unknown, known)
    assert differs_only_in_numbers(known, unknown)


def test_a_condition_that_turned_bad_is_a_warning() -> None:
    old = [condition("Ready", "True", "AllPartitionsReady")]
    new = [condition("Ready", "False", "DiskFull", "make room")]
    (event,) = condition_events(old, new)
    assert (event.reason, event.message, event.warning) == ("DiskFull", "make room", True)


def test_a_condition_that_turned_good_is_told_without_warning() -> None:
    old = [condition("Degraded", "True", "DiskFull")]
    (event,) = condition_events(old, [condition("Degraded", "False", "AsExpected")])
    assert (event.reason, event.warning) == ("AsExpected", False)


def test_a_cause_in_several_conditions_is_told_once() -> None:
    new = [condition("Ready", "False", "DiskFull"), condition("Degraded", "True", "DiskFull")]
    assert [one.reason for one in condition_events([], new)] == ["DiskFull"]


def test_another_cause_of_the_same_status_is_news() -> None:
    old = [condition("Degraded", "True", "DiskFull")]
    assert condition_events(old, [condition("Degraded", "True", "OutOfMemory")])


def test_other_words_for_the_same_cause_are_no_news() -> None:
    old = [condition("Degraded", "True", "DiskFull", "one")]
    new = [condition("Degraded", "True", "DiskFull", "two", last_transition_time=NOW)]
    assert condition_events(old, new) == []


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        ("Ready", "True", "AllPartitionsReady"),
        ("Degraded", "False", "AsExpected"),
        ("Ready", "False", "PartitionsNotReady"),
        ("WindowHealthy", "Unknown", "NoWorkerAnswers"),
        ("Progressing", "True", "RollingOut"),
    ],
)
def test_what_is_expected_of_a_new_stream_is_no_news(kind: str, status: str, reason: str) -> None:
    assert condition_events([], [condition(kind, status, reason)]) == []


def test_a_worker_on_its_way_is_no_news_and_a_suspension_is() -> None:
    old = [condition("Ready", "True", "AllPartitionsReady")]
    assert condition_events(old, [condition("Ready", "False", "PartitionsNotReady")]) == []
    (suspended,) = condition_events(old, [condition("Ready", "False", "Suspended")])
    assert suspended.reason == "Suspended"


def test_a_pause_is_a_warning() -> None:
    old = [condition("ReconciliationPaused", "False", "Active")]
    (event,) = condition_events(old, [condition("ReconciliationPaused", "True", "Annotated")])
    assert event.warning
