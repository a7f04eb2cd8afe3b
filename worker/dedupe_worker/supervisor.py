"""Restart a partition's session after retriable errors; exit on other errors.

`process.py` runs it in the partition's thread. A full volume (`DiskFull`) and an unreachable broker are retriable: the
next session opens the store again and catches up. Invariant: one process has one session at a time, and the state
directory is locked throughout.
"""

from contextlib import suppress
from random import Random
from threading import Event
from typing import Final

import structlog

from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.worker import Phase
from dedupe_kafka.errors import (
    ClientFailed,
    Fenced,
    QueueTooSmall,
    RecordRefused,
    Stopped,
    StreamError,
)
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.errors import DiskFull
from dedupe_worker.recovery.hand_over import before_routers
from dedupe_worker.session import Session
from dedupe_worker.status.degradations import Degraded
from dedupe_worker.store.state_dir import write_atomically

_FIRST_WAIT_SECONDS: Final = 0.5
_LONGEST_WAIT_SECONDS: Final = 15.0
_GOOD_SESSION_SECONDS: Final = 60.0
_NARROW_BY: Final = 10

log = structlog.get_logger()


class Supervisor:
    """Run sessions of one partition until `stop` is set or an error is fatal.

    `random` spreads the retries of many workers out.
    """

    def __init__(
        self,
        factory: ComponentFactory,
        commands: CommandQueue,
        stop: Event,
        random: Random | None = None,
    ) -> None:
        self._factory = factory
        self._worker_state = factory.worker_state
        self._clock = factory.clock
        self._commands = commands
        self._stop = stop
        self._random = random or Random()  # noqa: S311 (spreads workers out, nothing secret)
        self._full_limit = factory.config.stream.spec.worker.tuning.max_transaction_records
        self._record_limit = self._full_limit
        self._failures = 0
        self._handed_over = False

    def run(self) -> ExitCode:
        """Run; return the exit code.

        After a stop the phase is Stopping and the code OK, also if the last session failed: the status keeps why.
        A worker that was fenced once stays fenced. The kubelet of a disconnected node may start it again, and then it
        would only take over from the worker that has replaced it.
        """
        fenced = self._factory.config.fenced_file
        if fenced is not None and fenced.exists():
            return self._stand_by()
        try:
            with self._factory.config.state.lock():
                self._name_foreign_locks()
                while not self._stop.is_set():
                    self._run_session()
        except StreamError as error:
            if isinstance(error, Fenced) and fenced is not None:
                # Without the file it takes over once more, and is fenced again.
                with suppress(OSError, DiskFull):
                    write_atomically(fenced, "")
            self._worker_state.report_failure(error)
            log.error("worker ends", reason=error.reason, error=str(error))
            return error.exit_code
        except Exception:  # a bug: leave a traceback and an exit code for the restart
            log.exception("worker ends on an unexpected error")
            return ExitCode.FAILED
        return self._stopped()

    def _name_foreign_locks(self) -> None:
        if where := self._factory.config.state.foreign_locks():
            self._worker_state.degradations.hold(
                Degraded.VOLUME_WITHOUT_LOCKS,
                f"locks on {where} do not reach other machines: two workers with this volume could damage its store. "
                "Mount it with locks, or use block storage",
            )

    def _stand_by(self) -> ExitCode:
        """Do nothing but report the reason, until `stop` is set."""
        error = Fenced("another worker of this partition has taken over; this one does nothing")
        self._worker_state.report_failure(error)
        log.error("worker stands by", reason=error.reason, error=str(error))
        while not self._stop.is_set():
            self._wait(_LONGEST_WAIT_SECONDS)
        return self._stopped()

    def _stopped(self) -> ExitCode:
        self._worker_state.set_phase(Phase.STOPPING)
        return ExitCode.OK

    def _run_session(self) -> None:
        began = self._clock.monotonic()
        self._worker_state.tally.sessions += 1
        try:
            if not self._handed_over:
                self._hand_over()
            if not self._stop.is_set():
                self._session(self._factory)
        except Stopped as cut_short:
            log.info("stopped before a request was done", request=str(cut_short))
        except StreamError as error:
            if not error.retriable:
                raise
            if self._clock.monotonic() - began >= _GOOD_SESSION_SECONDS:
                self._failures, self._record_limit = 0, self._full_limit
            self._recover_from(error)

    def _hand_over(self) -> None:
        """Hand the input over, if the stream has got routers since this worker read it.

        Before each session, until the epoch log says that all have: it may be lost up to then.
        """
        if earlier := before_routers(self._factory, self._stop):
            self._session(earlier, hands_over=True)
        else:
            self._handed_over = True

    def _session(self, factory: ComponentFactory, *, hands_over: bool = False) -> None:
        Session(
            factory,
            self._commands,
            self._stop,
            record_limit=self._record_limit,
            hands_over=hands_over,
        ).run()

    def _recover_from(self, error: StreamError) -> None:
        if isinstance(error, RecordRefused):
            # Smaller transactions next time: they commit the records before the refused record, until the message
            # names that record alone.
            self._record_limit = max(1, self._record_limit // _NARROW_BY)
        if isinstance(error, QueueTooSmall):
            self._factory.output_queue_bytes *= 2
        self._failures += 1
        wait_seconds = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2**self._failures)
        wait_seconds *= self._random.uniform(0.7, 1.0)
        self._worker_state.report_failure(error)
        log.error(
            "session failed",
            reason=error.reason,
            error=str(error),
            exc_info=isinstance(error, ClientFailed),
            next_try_seconds=round(wait_seconds, 1),
        )
        self._wait(wait_seconds)

    def _wait(self, seconds: float) -> None:
        deadline = self._clock.deadline(seconds, self._stop)
        while deadline.pause(1.0):
            self._worker_state.heartbeat()
