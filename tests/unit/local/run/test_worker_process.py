"""The environment of a worker process."""

import subprocess
import sys
from pathlib import Path

import httpx

from dedupe_local.run.worker_process import WorkerProcess
from dedupe_local.state_dir import StateDir
from dedupe_worker.store.inverse_bloom.capacity import WORKERS_HERE
from tests.support.patience import HANG_SECONDS


class Printing(WorkerProcess):
    """A worker whose process prints the number of workers."""

    def command(self) -> list[str | Path]:
        return [sys.executable, "-c", f"import os; print(os.environ['{WORKERS_HERE}'])"]


def test_a_worker_is_told_how_many_share_the_machine(tmp_path: Path) -> None:
    with StateDir(tmp_path) as state, httpx.Client() as http:
        worker = Printing(0, state, http, None, workers=3)
        worker.tick()
        assert isinstance(worker.process, subprocess.Popen)
        worker.process.wait(timeout=HANG_SECONDS)
        assert (state.partition(0) / "worker.log").read_text() == "3\n"
