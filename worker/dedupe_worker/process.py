"""Run the worker as a process: signals, the HTTP server, the watchdog.

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
from typing import Final

import structlog

from dedupe_crds.clock import Clock
from dedupe_crds.deadline import Deadline
from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.worker import Phase
from dedupe_httpd.bounded_server import BoundedServer
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.admin.http_api import make_app, make_probe_app
from dedupe_worker.admin.metrics import make_registry
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.status import WorkerState
from dedupe_worker.store.state_dir import write_atomically
from dedupe_worker.supervisor import Supervisor

_STOP_SECONDS: Final = 9.0
_STUCK_SECONDS: Final = 240.0
_WATCH_SECONDS: Final = 0.5
_PROBE_BODY_BYTES: Final = 1024

log = structlog.get_logger()


def run_worker(
    factory: ComponentFactory,
    *,
    host: str,
    port: int,
    probes: tuple[str, int] | None = None,
    endpoint_file: Path | None = None,
    token: str | None = None,
) -> ExitCode:
    """Run one worker until a signal or a fatal error; return the exit code.

    `port` 0 takes any free port. The address is written to `endpoint_file` as "HOST:PORT". /healthz and /readyz are
    also served at the address `probes`. Raises InvalidConfig if an address cannot be used.
    """
    worker_state = factory.worker_state
    commands, stop = CommandQueue(), Event()
    server = BoundedServer(
        make_app(
            worker_state,
            commands,
            make_registry(worker_state),
            token,
            requests=factory.requests,
            upload_manager=factory.upload_manager,
        ),
        host,
        port,
        threads=8,
    )
    Thread(target=server.run, name="http", daemon=True).start()
    if probes is not None:
        _serve_probes(worker_state, *probes)
    if endpoint_file:
        write_atomically(endpoint_file, f"{server.address}\n")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    log.info(
        "worker starts",
        stream=worker_state.stream,
        partition=worker_state.partition,
        port=server.effective_port,
    )

    outcome: list[ExitCode] = []
    supervisor = Supervisor(factory, commands, stop)
    thread = Thread(target=lambda: outcome.append(supervisor.run()), name="partition", daemon=True)
    # A batch is tens of thousands of objects without reference cycles: a search for cycles at Python's default
    # interval, 700 objects, takes a tenth of the loop's time.
    gc.freeze()
    gc.set_threshold(200_000, 10, 10)
    thread.start()
    _watch(thread, worker_state, stop, factory.clock)
    code = outcome[0] if outcome else ExitCode.FAILED
    log.info("worker ended", exit_code=int(code))
    return code


def _serve_probes(worker_state: WorkerState, host: str, port: int) -> None:
    """Serve the probes apart from everything that may be slow or busy."""
    app = make_probe_app(worker_state)
    server = BoundedServer(app, host, port, threads=2, max_body_bytes=_PROBE_BODY_BYTES)
    Thread(target=server.run, name="probes", daemon=True).start()


def _watch(thread: Thread, worker_state: WorkerState, stop: Event, clock: Clock) -> None:
    """Wait for the loop's thread; end the process if the thread hangs.

    That is safe at any moment, see loop.py.
    """
    deadline: Deadline | None = None
    while thread.is_alive():
        thread.join(_WATCH_SECONDS)
        if stop.is_set() and deadline is None:
            deadline = clock.deadline(_STOP_SECONDS)
            worker_state.phase = Phase.STOPPING
        if deadline is not None and deadline.expired:
            _end("did not stop in time; Kafka aborts the open transaction", ExitCode.FAILED)
        if worker_state.heartbeat_age_seconds > _STUCK_SECONDS:
            _end(f"no progress for {_STUCK_SECONDS:.0f} s", ExitCode.STUCK)


def _end(why: str, code: ExitCode) -> None:
    log.error("worker is ended", why=why, exit_code=int(code))
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    os._exit(code)
