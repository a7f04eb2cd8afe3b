"""Have the kernel kill this process when its parent ends (prctl, Linux).

`child_process` runs this file as a script, `python die_with_parent.py PARENT_PID COMMAND…`: the first thing that a
child does. It then becomes the command, so its pid stays the same. Invariant: it imports the standard library only, as
it runs without site-packages.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Have this process killed when its parent ends.

    If `parent` is no longer its parent, end it at once.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel had the request
        sys.exit(1)


def _become(parent: int, command: list[str]) -> None:
    die_with(parent)
    os.execvp(command[0], command)  # noqa: S606 # the whole purpose of this file


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
