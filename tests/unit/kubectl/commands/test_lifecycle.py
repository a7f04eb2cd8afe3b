"""When a change has reached all partitions."""

import pytest

from dedupe_kubectl.commands.lifecycle import to_restart, to_run, to_suspend
from dedupe_kubectl.errors import TimedOut
from dedupe_kubectl.objects import by_partition, read_stream
from dedupe_kubectl.waiting import poll
from tests.unit.kubectl.clock import FakeClock
from tests.unit.kubectl.documents import condition, partition, pod, stream

SUSPEND = {"suspend": True}


def test_a_stream_is_suspended_when_no_worker_is_left() -> None:
    stopped = read_stream(stream(spec=SUSPEND, partitions=[partition(phase="Suspended")]))
    assert to_suspend(stopped, {}) == ""
    assert to_suspend(stopped, by_partition([pod(0), pod(1)])) == "partitions 0-1 have a worker"
    late = read_stream(stream(spec=SUSPEND, partitions=[partition(phase="Running")]))
    assert to_suspend(late, {}) == "partitions 0 are not suspended yet"


def test_a_change_the_operator_has_not_seen_is_waited_for() -> None:
    unseen = read_stream(stream(spec=SUSPEND, metadata={"generation": 2}))
    for progress in (to_suspend, to_run, to_restart({})):
        assert "has not processed" in progress(unseen, {})


def test_a_paused_stream_says_what_keeps_it() -> None:
    pause = {"dedupestream.io/pause-reconciliation": "true"}
    assert "pause-reconciliation" in to_run(
        read_stream(stream(metadata={"annotations": pause})), {}
    )


def test_a_stream_runs_when_it_is_ready() -> None:
    assert to_run(read_stream(stream()), {}) == ""
    starting = [condition("Ready", "False", message="1 of 2 partitions are ready.")]
    assert to_run(read_stream(stream(conditions=starting)), {}) == "1 of 2 partitions are ready."


def test_a_restart_is_over_when_every_pod_is_another_and_ready() -> None:
    progress = to_restart({0: "a", 1: "a"})
    found = read_stream(stream())
    rounds = (
        ([pod(0), pod(1)], "0 of 2 restarted, waiting for 0-1"),
        ([pod(1)], "0 of 2 restarted, waiting for 0-1"),
        ([pod(0, uid="b", ready=False), pod(1)], "0 of 2 restarted, waiting for 0-1"),
        ([pod(0, uid="b"), pod(1)], "1 of 2 restarted, waiting for 1"),
        ([pod(0, uid="b"), pod(1, uid="b")], ""),
    )
    for pods, missing in rounds:
        assert progress(found, by_partition(pods)) == missing


def test_waiting_ends_in_time_and_says_what_is_missing() -> None:
    told: list[str] = []
    with pytest.raises(TimedOut, match=r"not processed the change yet.*describe-problem"):
        poll(
            lambda: to_run(read_stream(stream(metadata={"generation": 2})), {}),
            told.append,
            timeout_seconds=5,
            clock=FakeClock(),
        )
    assert len(told) == 1
