"""The worker as a process: signals, the HTTP server, the watchdog. The loop has a thread of its own, so that a
signal is answered and the watchdog runs while that thread waits inside librdkafka."""

import faulthandler
import gc
import logging
import os
import signal
import sys
import time
from pathlib import Path
from threading import Event, Thread
from typing import Final

import structlog
from waitress.server import create_server

from dedupe_crds.status.worker import ExitCode, Phase
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.admin.http_api import make_app
from dedupe_worker.admin.metrics import make_registry
from dedupe_worker.component_factory import Parts
from dedupe_worker.status import Board
from dedupe_worker.store.state_dir import write_atomically
from dedupe_worker.supervisor import Supervisor

_STOP_SECONDS: Final = 9.0
_STUCK_SECONDS: Final = 240.0
_WATCH_SECONDS: Final = 0.5

log = structlog.get_logger()


def configure_logs() -> None:
    """JSON lines on stderr, the libraries' logs among them."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*shared, renderer],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


def run_worker(
    parts: Parts,
    *,
    host: str,
    port: int,
    endpoint_file: Path | None = None,
    token: str | None = None,
) -> ExitCode:
    """Run one partition's worker until a signal or a final error; returns the exit code.

    `port` 0 takes any free one; "HOST:PORT" is then written to `endpoint_file`. Raises OSError if the address can't
    be bound.
    """
    board = parts.board
    commands, stop = CommandQueue(), Event()
    server = create_server(
        make_app(
            board,
            commands,
            make_registry(board),
            token,
            requests=parts.requests,
            keeper=parts.keeper,
        ),
        host=host,
        port=port,
        threads=8,
        ident=None,
    )
    Thread(target=server.run, name="http", daemon=True).start()
    if endpoint_file:
        write_atomically(endpoint_file, f"{server.effective_host}:{server.effective_port}\n")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    log.info(
        "worker starts", stream=board.stream, partition=board.partition, port=server.effective_port
    )

    outcome: list[ExitCode] = []
    supervisor = Supervisor(parts, commands, stop)
    thread = Thread(target=lambda: outcome.append(supervisor.run()), name="partition", daemon=True)
    # A batch is tens of thousands of objects without a cycle among them: looking for cycles at Python's default
    # pace, every 700 objects, takes a tenth of the loop's time.
    gc.freeze()
    gc.set_threshold(200_000, 10, 10)
    thread.start()
    _watch(thread, board, stop)
    code = outcome[0] if outcome else ExitCode.FAILED
    log.info("worker ended", exit_code=int(code))
    return code


def _watch(thread: Thread, board: Board, stop: Event) -> None:
    """Wait for the loop's thread; end the process if it hangs, which is safe at any moment (see loop.py)."""
    deadline = None
    while thread.is_alive():
        thread.join(_WATCH_SECONDS)
        if stop.is_set() and deadline is None:
            deadline = time.monotonic() + _STOP_SECONDS
            board.phase = Phase.STOPPING
        if deadline is not None and time.monotonic() > deadline:
            _end(
                "did not stop in time; what was not committed is aborted by Kafka", ExitCode.FAILED
            )
        if board.heartbeat_age_seconds > _STUCK_SECONDS:
            _end(f"no progress for {_STUCK_SECONDS:.0f} s", ExitCode.STUCK)


def _end(why: str, code: ExitCode) -> None:
    log.error("worker is ended", why=why, exit_code=int(code))
    faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
    os._exit(code)
