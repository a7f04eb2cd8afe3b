"""The restart policy, and the description of a worker's end."""

import pytest

from dedupe_crds.status.exit_code import ExitCode
from dedupe_local.run.restart_policy import (
    NoRestart,
    Restart,
    after_exit,
    describe_exit,
    last_error,
)

SIGKILLED = -9


@pytest.mark.parametrize("code", [code for code in ExitCode if code.is_final])
def test_a_worker_that_would_end_the_same_way_is_not_started_again(code: ExitCode) -> None:
    assert isinstance(after_exit(code, ready_seconds=900, failures=0, jitter=0), NoRestart)


@pytest.mark.parametrize("code", [SIGKILLED, ExitCode.FAILED, ExitCode.STUCK, ExitCode.OK, 137])
def test_any_other_end_is_followed_by_a_new_start(code: int) -> None:
    decision = after_exit(code, ready_seconds=0, failures=0, jitter=0)

    assert decision == Restart(wait_seconds=1.0, failures=1)


def test_waits_double_from_one_second_to_thirty() -> None:
    waits = []
    failures = 0
    for _ in range(8):
        decision = after_exit(SIGKILLED, ready_seconds=0, failures=failures, jitter=0)
        assert isinstance(decision, Restart)
        waits.append(decision.wait_seconds)
        failures = decision.failures

    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]


def test_a_wait_is_never_cut_by_more_than_half() -> None:
    assert after_exit(SIGKILLED, ready_seconds=0, failures=2, jitter=1) == Restart(2.0, 3)


@pytest.mark.parametrize(("ready_seconds", "failures"), [(59.0, 8), (60.0, 1)])
def test_failures_are_forgotten_after_a_minute_of_being_ready(
    ready_seconds: float, failures: int
) -> None:
    decision = after_exit(SIGKILLED, ready_seconds=ready_seconds, failures=7, jitter=0)

    assert isinstance(decision, Restart)
    assert decision.failures == failures


def test_an_end_is_named() -> None:
    assert describe_exit(-15) == "was killed by SIGTERM"
    assert describe_exit(-34) == "was killed by SIGRTMIN"
    assert describe_exit(-37) == "was killed by SIGRTMIN+3"
    assert describe_exit(-32) == "was killed by signal 32"
    assert describe_exit(66) == "ended with exit code 66 (FENCED)"
    assert describe_exit(3) == "ended with exit code 3"


def test_the_last_error_of_a_log_is_shown_with_its_reason() -> None:
    log = [
        '{"level": "error", "event": "session failed", "reason": "DiskFull", "error": "no room"}',
        '{"level": "info", "event": "worker ended"}',
        "not JSON",
        "[1]",
    ]

    assert last_error(log) == "DiskFull: no room"


def test_without_an_error_line_the_last_line_of_a_log_is_shown() -> None:
    assert last_error(["Traceback …", "MemoryError", ""]) == "MemoryError"
    assert last_error([]) is None
