"""Restart a router's session after retriable errors; end on other errors."""

from random import Random
from threading import Event
from typing import Final

import structlog

from dedupe_crds.clock import Clock
from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.router import RouterPhase
from dedupe_kafka.clients import CLIENTS, Clients
from dedupe_kafka.errors import ClientFailed, QueueTooSmall, Stopped, StreamError
from dedupe_router.config import RouterConfig
from dedupe_router.session import Session
from dedupe_router.state import RouterState

_FIRST_WAIT_SECONDS: Final = 0.5
_LONGEST_WAIT_SECONDS: Final = 15.0
_GOOD_SESSION_SECONDS: Final = 60.0

log = structlog.get_logger()


class Supervisor:
    """Run sessions of one router until `stop` is set or an error is fatal.

    `random` spreads the retries of many routers out.
    """

    def __init__(
        self,
        config: RouterConfig,
        state: RouterState,
        clock: Clock,
        stop: Event,
        *,
        clients: Clients = CLIENTS,
        random: Random | None = None,
    ) -> None:
        self._config = config
        self._state = state
        self._clock = clock
        self._stop = stop
        self._clients = clients
        self._random = random or Random()  # noqa: S311 (spreads routers out, nothing secret)
        self._failures = 0
        self._queue_bytes = config.stream.spec.worker.tuning.queue_bytes

    def run(self) -> ExitCode:
        """Run; return the exit code."""
        try:
            while not self._stop.is_set():
                self._run_session()
        except Stopped:
            pass  # in the middle of a request: that is no failure
        except StreamError as error:
            self._state.report_failure(error)
            log.error("router ends", reason=error.reason, error=str(error))
            return error.exit_code
        except Exception:  # a bug: leave a traceback and an exit code for the restart
            log.exception("router ends on an unexpected error")
            return ExitCode.FAILED
        self._state.phase = RouterPhase.STOPPING
        return ExitCode.OK

    def _run_session(self) -> None:
        began = self._clock.monotonic()
        self._state.phase = RouterPhase.STARTING
        try:
            Session(
                self._config,
                self._state,
                self._clock,
                self._stop,
                self._clients,
                output_queue_bytes=self._queue_bytes,
            ).run()
        except StreamError as error:
            if not error.retriable:
                raise
            if self._clock.monotonic() - began >= _GOOD_SESSION_SECONDS:
                self._failures = 0
            if isinstance(error, QueueTooSmall):
                self._queue_bytes *= 2
            self._wait_after(error)

    def _wait_after(self, error: StreamError) -> None:
        self._failures += 1
        seconds = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2**self._failures)
        seconds *= self._random.uniform(0.7, 1.0)
        self._state.report_failure(error)
        log.error(
            "session failed",
            reason=error.reason,
            error=str(error),
            exc_info=isinstance(error, ClientFailed),
            next_try_seconds=round(seconds, 1),
        )
        deadline = self._clock.deadline(seconds, self._stop)
        while deadline.pause(1.0):
            self._state.heartbeat()
