"""What retries may add to a worker's log, and what still fails."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.crashes.aftermath import assert_undisturbed, reconciled
from tests.support.processes.processes import WorkerProcess

LATE = {"event": "session failed", "reason": "BrokerUnavailable"}
EXPIRED = {"event": "session failed", "reason": "TransactionExpired"}
CAUGHT_UP = {"event": "caught up", "reason": "Tail"}
AGAIN = {"event": "caught up", "reason": "Restart"}


def worker(*lines: dict[str, Any]) -> WorkerProcess:
    return cast(WorkerProcess, SimpleNamespace(logs=lambda: list(lines)))


def test_a_broker_that_was_late_disturbs_nobody() -> None:
    assert_undisturbed(worker(CAUGHT_UP, LATE, EXPIRED, AGAIN))


@pytest.mark.parametrize("reason", ["Fenced", "StoreCorrupt", "DiskFull", "OutputTopicReplaced"])
def test_any_other_failure_is_named(reason: str) -> None:
    failed = {"event": "session failed", "reason": reason}
    with pytest.raises(AssertionError, match=reason):
        assert_undisturbed(worker(CAUGHT_UP, LATE, failed))


def test_the_first_reconcile_is_found_before_those_of_retries() -> None:
    assert reconciled(worker(CAUGHT_UP)) == CAUGHT_UP
    assert reconciled(worker(CAUGHT_UP, LATE, AGAIN)) == CAUGHT_UP


@pytest.mark.parametrize("lines", [(), (CAUGHT_UP, AGAIN), (CAUGHT_UP, LATE, AGAIN, AGAIN)])
def test_no_reconcile_and_one_without_a_failure_before_are_refused(
    lines: tuple[dict[str, Any], ...],
) -> None:
    with pytest.raises(AssertionError):
        reconciled(worker(*lines))
