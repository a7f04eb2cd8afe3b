"""Kills a worker in the middle of a flush: a process of its own, because RocksDB flushes in threads
that Python does not see, and holds the interpreter up meanwhile.

`python -m tests.support.processes.flush_killer PID DATABASE TIME` says "watching", and sends SIGKILL as soon
as the database has begun its n-th new file. It ends with the process it watches.
"""

import os
import signal
import sys
from pathlib import Path


def main(pid: int, database: Path, time: int) -> None:
    """Watch without a pause: a flush of a small store takes a few milliseconds."""
    before = _files(database)
    sys.stdout.write("watching\n")
    sys.stdout.flush()
    while os.getppid() == pid:
        if len(_files(database) - before) >= time:
            os.kill(pid, signal.SIGKILL)
            return


def _files(database: Path) -> set[str]:
    try:
        return {path.name for path in database.iterdir() if path.suffix == ".sst"}
    except FileNotFoundError:
        return set()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
