"""Children end with their parent, by SIGTERM first if there is time."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import psutil
import pytest

from dedupe_local.run import child_process
from tests.support.patience import HANG_SECONDS, patience

LONG = [sys.executable, "-c", "import time; time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('deaf', flush=True); time.sleep(600)",
]

LAST = (("slow", 0.5), ("quick", 0.0))


def naming(name: str, seconds: float, ended: Path) -> list[str]:
    """A command that writes its name when it has ended, some time after SIGTERM."""
    code = f"""
        import signal, sys, time
        def end(*_):
            time.sleep({seconds})
            with open({str(ended)!r}, "a") as file:
                file.write("{name}\\n")
            sys.exit(0)
        signal.signal(signal.SIGTERM, end)
        print("ready", flush=True)
        time.sleep(600)
    """
    return [sys.executable, "-c", textwrap.dedent(code)]


def wait_for_text(*logs: Path) -> None:
    """Wait until each process has written that it is ready for a signal."""
    ready = patience(60).wait_for(
        lambda: all(log.exists() and log.read_text() for log in logs), poll_seconds=0.01
    )
    assert ready


def spawn(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return child_process.spawn(command, output=output)


def test_a_child_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent_code = f"""
        import sys, time
        from dedupe_local.run import child_process
        with open({str(tmp_path / "log")!r}, "ab") as log:
            print(child_process.spawn({LONG!r}, output=log).pid, flush=True)
        time.sleep(60)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(parent_code)], stdout=subprocess.PIPE, text=True
    )
    with parent:
        child = psutil.Process(int(parent.stdout.readline() if parent.stdout else 0))
        assert child.is_running()

        parent.kill()

    child.wait(timeout=HANG_SECONDS)


def test_a_child_outlives_the_thread_that_asked_for_it(tmp_path: Path) -> None:
    children: list[subprocess.Popen[bytes]] = []
    asking = threading.Thread(target=lambda: children.append(spawn(LONG, tmp_path / "log")))
    asking.start()
    asking.join()

    with pytest.raises(subprocess.TimeoutExpired):
        children[0].wait(timeout=0.5)

    child_process.stop(children, deadline_seconds=5)


def test_a_child_has_its_own_process_group_and_the_pid_of_its_command(tmp_path: Path) -> None:
    child = spawn([sys.executable, "-c", "import os; print(os.getpid())"], tmp_path / "log")

    child.wait(timeout=HANG_SECONDS)

    assert int((tmp_path / "log").read_text()) == child.pid
    long = spawn(LONG, tmp_path / "log")
    assert os.getpgid(long.pid) == long.pid != os.getpgid(0)
    child_process.stop([long], deadline_seconds=5)


def test_one_deadline_holds_for_all_that_do_not_listen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = [tmp_path / str(number) for number in range(3)]
    stubborn = [spawn(STUBBORN, log) for log in logs]
    polite = spawn(LONG, tmp_path / "polite")
    assert patience(60).wait_for(lambda: all(log.read_text() for log in logs), poll_seconds=0.05)
    waits: list[float] = []
    wait = subprocess.Popen.wait

    def noted(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        waits.append(timeout or 0.0)  # how long it takes in fact is up to the machine
        return wait(process, HANG_SECONDS if process is polite else timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", noted)
    child_process.stop([*stubborn, polite], deadline_seconds=1)

    assert sum(waits) <= 1
    assert [child.returncode for child in stubborn] == [-signal.SIGKILL] * 3
    assert polite.returncode == -signal.SIGTERM


def test_a_group_ends_once_the_one_before_it_has_ended(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    slow, quick = (spawn(naming(name, seconds, ended), tmp_path / name) for name, seconds in LAST)
    wait_for_text(tmp_path / "slow", tmp_path / "quick")

    child_process.stop_in_turn([[slow], [], [quick]], deadline_seconds=30)

    assert ended.read_text().split() == ["slow", "quick"]
    assert (slow.returncode, quick.returncode) == (0, 0)


def test_a_group_that_does_not_end_leaves_time_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = tmp_path / "ended"
    deaf = spawn(STUBBORN, tmp_path / "deaf")
    quick = spawn(naming("quick", 0.5, ended), tmp_path / "quick")
    wait_for_text(tmp_path / "deaf", tmp_path / "quick")

    waits: dict[subprocess.Popen[bytes], float] = {}
    wait = subprocess.Popen.wait

    def noted(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if timeout:
            waits[process] = timeout
        return wait(process, HANG_SECONDS if process is quick else timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", noted)
    child_process.stop_in_turn([[deaf], [quick]], deadline_seconds=6)

    assert waits[quick] > 1, "it has time"
    assert (deaf.returncode, quick.returncode) == (-signal.SIGKILL, 0)
    assert ended.read_text().split() == ["quick"]
