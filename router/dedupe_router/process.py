"""Run the router as a process: signals, the HTTP server, the watchdog.

`cli.py` calls it. The loop has a separate thread, so that signals are handled and the watchdog runs while that thread
waits inside librdkafka.
"""

import faulthandler
import gc
import os
import signal
import sys
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

import falcon
import structlog

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_crds.deadline import Deadline
from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.router import RouterPhase
from dedupe_httpd.bounded_server import BoundedServer
from dedupe_httpd.probes import Metrics, Status, add_probes
from dedupe_router.config import RouterConfig
from dedupe_router.metrics import make_registry
from dedupe_router.state import RouterState
from dedupe_router.supervisor import Supervisor

if TYPE_CHECKING:
    from falcon import App, Request, Response

_STOP_SECONDS: Final = 9.0
_STUCK_SECONDS: Final = 240.0
_WATCH_SECONDS: Final = 0.5
_PROBE_BODY_BYTES: Final = 1024

log = structlog.get_logger()


def run_router(
    config: RouterConfig,
    *,
    host: str,
    port: int,
    probes: tuple[str, int] | None = None,
    endpoint_file: Path | None = None,
) -> ExitCode:
    """Run one router until a signal or a fatal error; return the exit code.

    `port` 0 takes any free port. The address is written to `endpoint_file` as "HOST:PORT". Raises InvalidConfig if an
    address cannot be used.
    """
    state, stop = RouterState(config.stream, config.router), Event()
    server = BoundedServer(make_app(state), host, port, threads=4)
    Thread(target=server.run, name="http", daemon=True).start()
    if probes is not None:
        app = make_probe_app(state)
        probe_server = BoundedServer(app, *probes, threads=2, max_body_bytes=_PROBE_BODY_BYTES)
        Thread(target=probe_server.run, name="probes", daemon=True).start()
    if endpoint_file:
        _write_whole(endpoint_file, f"{server.address}\n")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    log.info("router starts", stream=state.stream, router=state.router, port=server.effective_port)
    outcome: list[ExitCode] = []
    supervisor = Supervisor(config, state, SYSTEM_CLOCK, stop)
    thread = Thread(target=lambda: outcome.append(supervisor.run()), name="router", daemon=True)
    # A batch is tens of thousands of objects without reference cycles, see the worker's process.py.
    gc.freeze()
    gc.set_threshold(200_000, 10, 10)
    thread.start()
    _watch(thread, state, stop, SYSTEM_CLOCK)
    code = outcome[0] if outcome else ExitCode.FAILED
    log.info("router ended", exit_code=int(code))
    return code


def make_app(state: RouterState) -> "App[Request, Response]":
    """Return the WSGI application: probes, /metrics and /status. It takes no POST."""
    app = falcon.App()
    add_probes(app, state)
    app.add_route("/metrics", Metrics(make_registry(state)))
    app.add_route("/status", Status(state))
    return app


def make_probe_app(state: RouterState) -> "App[Request, Response]":
    """Return the WSGI application for probes: GET /healthz and GET /readyz only."""
    app = falcon.App()
    add_probes(app, state)
    return app


def _write_whole(path: Path, text: str) -> None:
    """Write a file that a reader sees whole or not at all."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def _watch(thread: Thread, state: RouterState, stop: Event, clock: Clock) -> None:
    """Wait for the loop's thread; end the process if the thread hangs.

    That is safe at any moment: Kafka aborts an open transaction.
    """
    deadline: Deadline | None = None
    while thread.is_alive():
        thread.join(_WATCH_SECONDS)
        if stop.is_set() and deadline is None:
            deadline = clock.deadline(_STOP_SECONDS)
            state.phase = RouterPhase.STOPPING
        if deadline is not None and deadline.expired:
            _end("did not stop in time; Kafka aborts the open transaction", ExitCode.FAILED)
        if state.heartbeat_age_seconds > _STUCK_SECONDS:
            _end(f"no progress for {_STUCK_SECONDS:.0f} s", ExitCode.STUCK)


def _end(why: str, code: ExitCode) -> None:
    log.error("router is ended", why=why, exit_code=int(code))
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    os._exit(code)
