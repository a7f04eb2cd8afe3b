"""A failed verdict on records or leaders is final: such a test is not rerun."""

import re

import pytest

from tests.e2e.support.leaders import LeadersWatched
from tests.e2e.support.operator_pods import OperatorPods
from tests.support.checker.checker import judge
from tests.support.checker.id_sources import key_id
from tests.support.processes.processes import wait_for
from tests.unit.support.histories import record


def is_final(config: pytest.Config, error: BaseException) -> bool:
    """Return whether a test with this error is not rerun, by the plugin's own rule."""
    said = f"{type(error).__name__}: {error}"
    return any(re.search(pattern, said) for pattern in config.getini("rerun_except"))


def test_a_lost_record_is_final(pytestconfig: pytest.Config) -> None:
    with pytest.raises(AssertionError) as error:
        judge([record(0, b"a")], [], key_id).assert_exactly_once()
    assert is_final(pytestconfig, error.value)


def test_two_leaders_at_one_time_are_final(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = LeadersWatched(OperatorPods.__new__(OperatorPods))
    monkeypatch.setattr(watched, "together", [("a", "b")])
    with pytest.raises(AssertionError) as error:
        watched.assert_one_at_a_time()
    assert is_final(pytestconfig, error.value)


def test_what_was_waited_for_in_vain_is_not(pytestconfig: pytest.Config) -> None:
    with pytest.raises(AssertionError) as error:
        wait_for(lambda: False, "it is ready", deadline_seconds=0, poll_seconds=0)
    assert not is_final(pytestconfig, error.value)
