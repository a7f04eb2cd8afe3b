"""Change or drop each line that this process and its children write to stderr.

Invariant: no line is lost, also if the process ends by an error. Lines of children that live longer may be.
"""

import atexit
import os
import sys
from collections.abc import Callable
from itertools import takewhile
from threading import Lock, Thread
from typing import Final

_STDERR: Final = 2
_CLOSE_SECONDS: Final = 2.0
_END: Final = "\0"  # the last line of this process: children that live on keep the pipe open
_OF_A_START: Final = (  # what each JVM writes, whatever the log level
    "NOTE: Picked up ",
    "Picked up ",
    "WARNING: Using incubator modules",
)


def is_of_a_start(line: str) -> bool:
    """Return whether a line tells nothing but how a JVM was started."""
    return line.startswith(_OF_A_START)


class StderrLines:
    """Owns stderr from its construction on.

    `change` returns what is written of a line, None to drop it. It is called in another thread.
    """

    def __init__(self, change: Callable[[str], str | None]) -> None:
        sys.stderr.flush()
        self._change = change
        self._lock = Lock()
        self._out = os.fdopen(os.dup(_STDERR), "w", encoding="utf-8")
        read, write = os.pipe()
        os.dup2(write, _STDERR)
        os.close(write)
        self._reader = Thread(target=self._copy, args=(read,), name="stderr", daemon=True)
        self._reader.start()
        atexit.register(self._close)

    def write(self, line: str) -> None:
        """Write a line as it is."""
        with self._lock:
            self._out.write(f"{line}\n")
            self._out.flush()

    def _copy(self, descriptor: int) -> None:
        with os.fdopen(descriptor, encoding="utf-8", errors="replace") as lines:
            for line in takewhile(_END.__ne__, map(str.rstrip, lines)):
                if (changed := self._change(line)) is not None:
                    self.write(changed)

    def _close(self) -> None:
        """Give stderr back, after the last lines were copied."""
        sys.stderr.flush()
        os.write(_STDERR, f"{_END}\n".encode())
        os.dup2(self._out.fileno(), _STDERR)
        self._reader.join(_CLOSE_SECONDS)
