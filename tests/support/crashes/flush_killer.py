"""Kill a worker in the middle of a flush.

This needs a separate process, as RocksDB flushes in threads that Python does not see, and blocks the interpreter.

`python -m tests.support.crashes.flush_killer PID DATABASE TIME` prints "watching", and
sends SIGKILL as soon as the database has begun its n-th new file. It ends with the process that it watches.
"""

import os
import signal
import sys
from pathlib import Path


def main(pid: int, database: Path, time: int) -> None:
    """Watch without pauses, as a flush of a small store takes a few milliseconds."""
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
