"""A signal in the middle of any call ends the work with the signal's exit code."""

import signal
import subprocess
import sys

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


_HANG_UP = """
import signal, sys
from dedupe_crds.stop_signals import Interrupted, StopSignals
# Not what the tests were started with.
signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[1] == "nohup" else signal.SIG_DFL)
try:
    with StopSignals() as signals, signals.interrupting(lambda: "after 3 records"):
        signal.raise_signal(signal.SIGHUP)
except Interrupted as interrupted:
    sys.exit(interrupted.exit_code)
"""


@pytest.mark.parametrize(("started", "code"), [("in a terminal", 129), ("nohup", 0)])
def test_a_terminal_that_is_closed_stops_the_command_unless_it_began_with_nohup(
    started: str, code: int
) -> None:
    ended = subprocess.run([sys.executable, "-c", _HANG_UP, started], check=False)
    assert ended.returncode == code
