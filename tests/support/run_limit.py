"""End a run of tests that hangs, with the stacks of all its processes."""

import faulthandler
import os
import time
from typing import Final

import pytest

STARTED: Final = "TEST_STARTED"
"""The variable with the time at which the whole command started, in Unix seconds. Default: now."""

LIMIT_SECONDS: Final = 80 * 60.0
# The main process ends last, so that those of xdist can write their stacks first.
_AHEAD_SECONDS: Final = 10.0


def end_in_time(config: pytest.Config) -> None:
    """Have this process end once the limit of the whole command is over.

    It is no test's time limit: the whole command may be as slow as the machine, but not without end.
    """
    started = float(os.environ.get(STARTED) or time.time())
    ahead = _AHEAD_SECONDS if hasattr(config, "workerinput") else 0.0
    left = started + LIMIT_SECONDS - ahead - time.time()
    # A copy of the stream, because a test's output is captured.
    faulthandler.dump_traceback_later(max(1.0, left), exit=True, file=os.dup(2))
