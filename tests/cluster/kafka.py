"""A Kafka broker that outlives the command that starts it: `python -m tests.cluster.kafka`."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event

from dedupe_local.servers.kafka import EmbeddedBroker
from tests.cluster.errors import ClusterError
from tests.cluster.paths import REPOSITORY, STATE

_DIRECTORY = STATE / "kafka"
_PID = _DIRECTORY / "pid"
_BOOTSTRAP = _DIRECTORY / "bootstrap"
_LOG = _DIRECTORY / "process.log"
_MODULE = "tests.cluster.kafka"
_HEAP = "1g"
_START_SECONDS = 240.0  # the first time it fetches its jars
_STOP_SECONDS = 40.0
_POLL_SECONDS = 0.1
_SESSION_SECONDS = 60.0  # a machine that is busy with all the tests may stand still for seconds


def ensure_broker(host: str) -> str:
    """Start the broker on an address of this machine, unless it runs; returns HOST:PORT.

    Raises:
        ClusterError: it did not start.
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
    deadline = time.monotonic() + _START_SECONDS
    while not _BOOTSTRAP.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            stop_broker()
            said = _LOG.read_text(errors="replace")[-2000:]
            raise ClusterError(f"The Kafka broker on {host} did not start:\n{said}")
        time.sleep(_POLL_SECONDS)
    return _BOOTSTRAP.read_text()


def stop_broker() -> None:
    """End the broker, if it runs; its topics are of no use without the cluster."""
    if not _runs():
        return
    pid = int(_PID.read_text())
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while _runs():
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)  # the kernel ends Java with it
            return
        time.sleep(_POLL_SECONDS)


def _runs() -> bool:
    """Whether the process is there, and is no other one that got its number since."""
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
