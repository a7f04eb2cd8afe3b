"""A Kafka broker in a background process, `python -m tests.cluster.kafka`."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event

from dedupe_local.servers.kafka import EmbeddedBroker
from tests.cluster.errors import ClusterError
from tests.cluster.paths import REPOSITORY, STATE
from tests.support.patience import patience

_DIRECTORY = STATE / "kafka"
_PID = _DIRECTORY / "pid"
_BOOTSTRAP = _DIRECTORY / "bootstrap"
_LOG = _DIRECTORY / "process.log"
_MODULE = "tests.cluster.kafka"
_HEAP = "1g"
_START_SECONDS = 240.0  # the first start downloads the jars
_STOP_SECONDS = 40.0
_POLL_SECONDS = 0.1
_SESSION_SECONDS = 60.0  # a machine that runs all tests may stall for seconds


def ensure_broker(host: str) -> str:
    """Start the broker on an address of this machine unless it runs; return HOST:PORT.

    Raises:
        ClusterError: the broker did not start.
    """
    if _runs() and _BOOTSTRAP.exists():
        return _BOOTSTRAP.read_text()
    _DIRECTORY.mkdir(parents=True, exist_ok=True)
    _BOOTSTRAP.unlink(missing_ok=True)
    with _LOG.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", _MODULE, str(_DIRECTORY), host],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    _PID.write_text(str(process.pid))
    patience(_START_SECONDS).wait_for(
        lambda: _BOOTSTRAP.exists() or process.poll() is not None, poll_seconds=_POLL_SECONDS
    )
    if not _BOOTSTRAP.exists():
        stop_broker()
        log_end = _LOG.read_text(errors="replace")[-2000:]
        raise ClusterError(f"The Kafka broker on {host} did not start:\n{log_end}")
    return _BOOTSTRAP.read_text()


def stop_broker() -> None:
    """Stop the broker if it runs; its topics are useless without the cluster."""
    if not _runs():
        return
    pid = int(_PID.read_text())
    os.kill(pid, signal.SIGTERM)
    if not patience(_STOP_SECONDS).wait_for(lambda: not _runs(), poll_seconds=_POLL_SECONDS):
        os.kill(pid, signal.SIGKILL)  # the kernel ends Java with it


def _runs() -> bool:
    """Check that the process exists, and that no other process has its id now."""
    if not _PID.exists():
        return False
    try:
        process = Path("/proc") / _PID.read_text()
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z" and _MODULE.encode() in (process / "cmdline").read_bytes()
    except OSError:
        return False


def _serve(directory: Path, host: str) -> None:
    stopped = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with EmbeddedBroker(
        directory, heap=_HEAP, host=host, session_seconds=_SESSION_SECONDS
    ) as broker:
        fresh = _BOOTSTRAP.with_suffix(".new")
        fresh.write_text(broker.bootstrap_servers)
        fresh.rename(_BOOTSTRAP)
        stopped.wait()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), sys.argv[2])
