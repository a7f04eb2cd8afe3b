"""A peer is all of its processes: those that it started count, and none of them survives a kill."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from benchmarks.peers.peer import Job, Peer
from benchmarks.peers.processes import PeerProcesses, TreeMeter

_HOG_BYTES = 64 << 20
# A process whose child takes memory, says so by a file, and then uses two CPU seconds.
_PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[2]])
"""
_CHILD = f"""
import pathlib, sys, time
hog = b"x" * {_HOG_BYTES}
pathlib.Path(sys.argv[1]).touch()
while time.process_time() < 2: pass
time.sleep(60)
"""


@pytest.fixture
def at_work(tmp_path: Path) -> Iterator[PeerProcesses]:
    ready = tmp_path / "ready"
    peer = Peer(
        name="fake",
        title="Fake",
        guarantee="none",
        configuration="",
        install=lambda: None,
        commands=lambda _: [[sys.executable, "-c", _PARENT, _CHILD, ready]],
    )
    with PeerProcesses(peer, Job("", "", "", tmp_path, []), tmp_path / "log") as processes:
        deadline = time.monotonic() + 30
        while not ready.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield processes


def descendants(processes: PeerProcesses) -> list[psutil.Process]:
    return psutil.Process(processes.pids[0]).children(recursive=True)


def test_what_children_take_counts(at_work: PeerProcesses) -> None:
    (child,) = descendants(at_work)
    start, before = time.time(), sum(child.cpu_times()[:2])
    with TreeMeter(at_work.pids) as meter:
        while sum(child.cpu_times()[:2]) < 1.5:
            time.sleep(0.05)
        time.sleep(0.3)  # for one sample more
    used = sum(child.cpu_times()[:2]) - before

    assert meter.peak_bytes > _HOG_BYTES
    assert meter.used(start, time.time()) == pytest.approx(used, abs=0.3)
    assert used > 0.6


def test_what_was_used_stays_used_when_one_of_two_has_ended() -> None:
    # One uses half a second and ends; the other goes on for two.
    work = "import time\nwhile time.process_time() < {}: pass\n"
    processes = [
        subprocess.Popen([sys.executable, "-c", work.format(seconds)]) for seconds in (0.5, 2.0)
    ]
    with TreeMeter([process.pid for process in processes]) as meter:
        start = time.time()
        for process in processes:
            process.wait(30)
        end = time.time()

    assert meter.used(start, end) == pytest.approx(2.5, abs=0.4)


def test_a_kill_leaves_nobody(at_work: PeerProcesses) -> None:
    (child,) = descendants(at_work)

    at_work.kill()

    assert at_work.exit_codes == [-9]
    assert not child.is_running()


def test_the_end_of_a_turn_leaves_nobody(at_work: PeerProcesses) -> None:
    (child,) = descendants(at_work)

    at_work.__exit__(None, None, None)

    assert len(at_work.exit_codes) == 1
    assert not child.is_running()
