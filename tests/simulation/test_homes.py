"""A process that was killed leaves its directory, and the next one removes it."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from tests.simulation import homes


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        capture_output=True,
        text=True,
        check=True,
    )
    left = tmp_path / f"dedupe-sim-{ended.stdout.strip()}"
    (left / "a" / "p0.1").mkdir(parents=True)
    other = tmp_path / "dedupe-sim-notes"
    other.mkdir()
    made = homes.make(tmp_path)
    assert made.parent == tmp_path / f"dedupe-sim-{os.getpid()}"
    assert not left.exists()
    assert other.exists()
    homes.remove_left(tmp_path)
    assert made.exists(), "a running process keeps its own"


def test_a_directory_that_is_locked_is_in_use(tmp_path: Path) -> None:
    held = tmp_path / f"dedupe-sim-{2**22 + 1}"  # of no process here
    held.mkdir()
    with (held / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        homes.remove_left(tmp_path)
        assert held.exists()
    homes.remove_left(tmp_path)
    assert not held.exists()
