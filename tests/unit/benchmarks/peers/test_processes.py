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
from tests.unit.operator.waits import until

pytestmark = pytest.mark.later  # it judges what measures

_HOG_BYTES = 64 << 20
# A process whose child takes memory, says so by a file, and uses two CPU seconds once it may.
_PARENT = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[2]])
"""
_CHILD = f"""
import pathlib, sys, time
hog = b"x" * {_HOG_BYTES}
ready = pathlib.Path(sys.argv[1])
ready.touch()
while not ready.with_name("go").exists(): time.sleep(0.05)
end = time.process_time() + 2
while time.process_time() < end: pass
ready.with_name("done").touch()
time.sleep(600)
"""
# Uses so many CPU seconds once it is told to, says so, and ends when it is told to.
_WORKER = """
import sys, time
print("ready", flush=True)
sys.stdin.readline()
end = time.process_time() + float(sys.argv[1])
while time.process_time() < end: pass
print("done", flush=True)
sys.stdin.readline()
"""


def sample(meter: TreeMeter) -> None:
    """Return when the meter has taken a sample that was begun after the call."""
    taken = len(meter._times)  # noqa: SLF001 # one may be in progress
    until(lambda: len(meter._times) >= taken + 2)  # noqa: SLF001 # as above


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
        until(ready.exists)
        yield processes


def said(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline()


def descendants(processes: PeerProcesses) -> list[psutil.Process]:
    return psutil.Process(processes.pids[0]).children(recursive=True)


def test_what_children_take_counts(at_work: PeerProcesses, tmp_path: Path) -> None:
    with TreeMeter(at_work.pids) as meter:
        sample(meter)
        start = time.time()
        (tmp_path / "go").touch()
        until((tmp_path / "done").exists)
        sample(meter)
        end = time.time()

    assert meter.peak_bytes > _HOG_BYTES
    assert meter.used(start, end) == pytest.approx(2.0, abs=0.3)


def test_what_was_used_stays_used_when_one_of_two_has_ended() -> None:
    # One uses half a second and ends; then the other uses two.
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, seconds],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seconds in ("0.5", "2.0")
    ]
    for worker in workers:
        assert said(worker) == "ready\n"
    with TreeMeter([worker.pid for worker in workers]) as meter:
        sample(meter)
        start = time.time()
        for worker in workers:
            print(file=worker.stdin, flush=True)
            assert said(worker) == "done\n"
            sample(meter)
            worker.communicate("\n", timeout=60)
        sample(meter)
        end = time.time()

    assert meter.used(start, end) == pytest.approx(2.5, abs=0.4)


@pytest.mark.parametrize("killed", [True, False])
def test_neither_a_kill_nor_the_end_of_a_turn_leaves_anybody(
    at_work: PeerProcesses, *, killed: bool
) -> None:
    (child,) = descendants(at_work)

    if killed:
        at_work.kill()
    else:
        at_work.__exit__(None, None, None)

    assert at_work.exit_codes == [-9] if killed else len(at_work.exit_codes) == 1
    assert not child.is_running()
