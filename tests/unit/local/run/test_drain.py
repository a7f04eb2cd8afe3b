"""The drain condition: a fleet is done, or has stalled."""

from dedupe_crds.status.worker import Phase
from dedupe_local.run.drain import WorkerDrain
from tests.unit.local.run.views import status

STALL_SECONDS = 120.0


def test_a_drain_is_done_when_every_partition_is_at_its_end() -> None:
    drain = WorkerDrain({0: 10, 1: 20}, STALL_SECONDS, now=0)

    drain.observe([status(10), status(19)], now=1)
    assert not drain.done
    assert drain.missing() == ["partition 1 is at offset 19 of 20"]

    drain.observe([status(11), status(20)], now=2)
    assert drain.done


def test_an_empty_partition_is_done_once_its_worker_is_ready() -> None:
    drain = WorkerDrain({0: 0}, STALL_SECONDS, now=0)

    drain.observe([status(0, phase=Phase.RECONCILING)], now=1)
    assert not drain.done

    drain.observe([status(0)], now=2)
    assert drain.done


def test_a_partition_whose_worker_died_at_the_end_must_come_back() -> None:
    drain = WorkerDrain({0: 10}, STALL_SECONDS, now=0)
    drain.observe([status(10)], now=1)

    drain.observe([None], now=2)

    assert not drain.done


def test_a_partition_stalls_after_the_given_time_without_progress() -> None:
    drain = WorkerDrain({0: 10}, STALL_SECONDS, now=0)
    stuck = status(5, phase=Phase.FAILED, message="the disk is full")

    drain.observe([status(5)], now=100)
    drain.observe([stuck], now=219.9)
    assert drain.stalled(219.9) == []

    drain.observe([stuck], now=220)
    assert drain.stalled(220) == ["partition 0 is at offset 5 of 10: the disk is full"]


def test_a_worker_that_never_answers_stalls() -> None:
    drain = WorkerDrain({0: 10}, STALL_SECONDS, now=0)

    drain.observe([None], now=120)

    assert drain.stalled(120) == ["partition 0 is at offset 0 of 10"]


def test_reconciling_is_progress() -> None:
    drain = WorkerDrain({0: 10}, STALL_SECONDS, now=0)

    for now, remaining in ((100, 900), (200, 800), (300, 700)):
        drain.observe([status(phase=Phase.RECONCILING, to_reconcile=remaining)], now)
        assert drain.stalled(now) == []


def test_reconciling_the_same_over_and_over_is_no_progress() -> None:
    drain = WorkerDrain({0: 10}, STALL_SECONDS, now=0)

    for now in range(0, 200, 10):
        remaining = 900 - now % 50
        drain.observe([status(phase=Phase.RECONCILING, to_reconcile=remaining)], now)

    assert drain.stalled(190) != []


def test_partitions_that_are_done_do_not_stall_while_others_go_on() -> None:
    drain = WorkerDrain({0: 10, 1: 1000}, STALL_SECONDS, now=0)

    for now in range(0, 300, 50):
        drain.observe([status(10), status(now)], now)

    assert drain.stalled(250) == []


def test_a_partition_may_get_its_worker_later() -> None:
    """The topics of a stream that grows have it first."""
    drain = WorkerDrain({0: 1, 1: 1}, 120, now=0)
    drain.observe([status(1)], now=1)
    assert not drain.done
    assert drain.missing() == ["partition 1 is at offset 0 of 1"]
    drain.observe([status(1), status(1, partition=1)], now=2)
    assert drain.done
