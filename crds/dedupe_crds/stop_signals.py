"""Stop a command by SIGTERM, SIGINT or SIGHUP.

It is for commands that are done or not, as a Kubernetes Job is. Such a command must not end with 0 before it is done:
the Job would be complete. Invariant: the exit code of a command that was stopped early is 128 + the number of the
signal (143 for SIGTERM, 130 for SIGINT, 129 for SIGHUP), as if it had killed it. SIGHUP means that the terminal was
closed: a command that was started with nohup continues.

It stands in the lowest package because all parts have commands.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType
from typing import Final, Self

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal ended the work before it was done.

    No `Exception`: what retries or reports errors must let it pass.
    """

    def __init__(self, number: signal.Signals, progress: str) -> None:
        super().__init__(f"stopped by {number.name} {progress}")
        self.exit_code = 128 + number


class StopSignals:
    """Notes the signals while it is entered, in the main thread.

    >>> with StopSignals() as signals:
    ...     try:
    ...         with signals.interrupting(lambda: "after 3 of 4 records"):
    ...             signal.raise_signal(signal.SIGTERM)
    ...     except Interrupted as interrupted:
    ...         print(f"{interrupted}: exit code {interrupted.exit_code}")
    stopped by SIGTERM after 3 of 4 records: exit code 143
    """

    def __init__(self) -> None:
        self.stop = Event()
        self._first: signal.Signals | None = None
        self._progress: Callable[[], str] | None = None

    def __enter__(self) -> Self:
        self._previous = {number: signal.getsignal(number) for number in _SIGNALS}
        self.install()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def install(self) -> None:
        """Install the handlers, again if a library has replaced them."""
        for number in _SIGNALS:
            if number == signal.SIGHUP and self._previous[number] is signal.SIG_IGN:
                continue  # nohup
            signal.signal(number, self._handle)

    @contextmanager
    def interrupting(self, progress: Callable[[], str]) -> Iterator[None]:
        """Raise `Interrupted` at a signal in the block, after which all is done.

        `progress` is called then, and says how far the work is: "before …" or "after …".
        """
        self._progress = progress
        try:
            if self.stop.is_set():
                self.interrupt(progress())
            yield
        except Exception:
            # The handler raised while a C library ran, which may hide that: in a SystemError, where it returned a
            # result all the same, or in an error about the argument that it looked at.
            self.interrupt(progress())
            raise
        finally:
            self._progress = None

    def interrupt(self, progress: str) -> None:
        """Raise `Interrupted` if there was a signal."""
        if self._first is not None:
            raise Interrupted(self._first, progress)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._first = self._first or signal.Signals(number)
        self.stop.set()
        if self._progress is not None:
            self.interrupt(self._progress())
