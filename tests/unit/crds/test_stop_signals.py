"""A signal in the middle of any call ends the work with the signal's exit code."""

import signal

import pytest

from dedupe_crds.stop_signals import Interrupted, StopSignals


def call_of_a_c_library(said: Exception) -> None:
    try:
        signal.raise_signal(signal.SIGTERM)
    except Interrupted as hidden:
        raise said from hidden


@pytest.mark.parametrize(
    "said",
    [
        SystemError("returned a result with an exception set"),
        TypeError("expected configuration property name as type unicode string"),
    ],
    ids=lambda said: type(said).__name__,
)
def test_a_signal_that_a_c_library_hides_is_seen(said: Exception) -> None:
    with (
        pytest.raises(Interrupted, match="SIGTERM after 3 records") as caught,
        StopSignals() as signals,
        signals.interrupting(lambda: "after 3 records"),
    ):
        call_of_a_c_library(said)
    assert caught.value.exit_code == 143


def test_an_error_of_a_c_library_without_a_signal_passes() -> None:
    with (
        pytest.raises(SystemError, match="a defect"),
        StopSignals() as signals,
        signals.interrupting(lambda: "after 3 records"),
    ):
        raise SystemError("a defect")
