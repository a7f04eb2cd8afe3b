"""Keeps one partition's sessions going: again after what may pass by itself, an end with a code after what may not."""

import random
import time
from contextlib import suppress
from threading import Event
from typing import Final

import structlog

from dedupe_crds.status.worker import ExitCode
from dedupe_kafka.errors import Fenced, RecordRefused, StreamError
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.component_factory import Parts
from dedupe_worker.session import Session

_FIRST_WAIT_SECONDS: Final = 0.5
_LONGEST_WAIT_SECONDS: Final = 15.0
_GOOD_SESSION_SECONDS: Final = 60.0
_NARROW_BY: Final = 10

log = structlog.get_logger()


class Supervisor:
    """Runs sessions of one partition until `stop` is set or an error is final."""

    def __init__(self, parts: Parts, commands: CommandQueue, stop: Event) -> None:
        self._parts = parts
        self._board = parts.board
        self._commands = commands
        self._stop = stop
        self._full_limit = parts.config.stream.spec.worker.tuning.max_transaction_records
        self._record_limit = self._full_limit
        self._failures = 0

    def run(self) -> ExitCode:
        """Run; returns why it ended.

        A worker that was fenced once is so for good: started again by whoever can't know, as the kubelet of a node that
        is cut off, it would only take over from the worker that has taken over from it.
        """
        fenced = self._parts.config.fenced_file
        if fenced is not None and fenced.exists():
            return self._stand_by()
        try:
            with self._parts.config.state.lock():
                while not self._stop.is_set():
                    self._run_session()
        except StreamError as error:
            if isinstance(error, Fenced) and fenced is not None:
                with suppress(
                    OSError
                ):  # without the note it takes over once more, and is fenced again
                    fenced.touch()
            self._board.fail(error)
            log.error("worker ends", reason=error.reason, error=str(error))
            return error.exit_code
        except (
            Exception
        ):  # a defect, whatever it is: leave a trace and an exit code for the restart
            log.exception("worker ends on an unexpected error")
            return ExitCode.FAILED
        return ExitCode.OK

    def _stand_by(self) -> ExitCode:
        """Do nothing but say why, until `stop` is set."""
        error = Fenced("another worker of this partition has taken over; this one does nothing")
        self._board.fail(error)
        log.error("worker stands by", reason=error.reason, error=str(error))
        while not self._stop.is_set():
            self._wait(_LONGEST_WAIT_SECONDS)
        return ExitCode.OK

    def _run_session(self) -> None:
        began = time.monotonic()
        self._board.tally.sessions += 1
        try:
            Session(
                self._parts,
                self._commands,
                self._stop,
                record_limit=self._record_limit,
            ).run()
        except StreamError as error:
            if not error.retriable:
                raise
            if time.monotonic() - began >= _GOOD_SESSION_SECONDS:
                self._failures, self._record_limit = 0, self._full_limit
            self._recover_from(error)

    def _recover_from(self, error: StreamError) -> None:
        if isinstance(error, RecordRefused):
            # Smaller transactions next time: they pass on what stands before the refused record, and in the end
            # the message names it alone.
            self._record_limit = max(1, self._record_limit // _NARROW_BY)
        self._failures += 1
        wait_seconds = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2**self._failures)
        wait_seconds *= random.uniform(0.7, 1.0)  # noqa: S311 (spreads workers out, nothing secret)
        self._board.fail(error)
        log.error(
            "session failed",
            reason=error.reason,
            error=str(error),
            next_try_seconds=round(wait_seconds, 1),
        )
        self._wait(wait_seconds)

    def _wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not self._stop.wait(min(left, 1.0)):
            self._board.beat()
