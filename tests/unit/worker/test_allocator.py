import os
import subprocess
import sys
from pathlib import Path

import pytest

from dedupe_worker.allocator import find_jemalloc, with_jemalloc

LIBRARY = Path("/usr/lib/libjemalloc.so.2")


def test_a_process_is_started_again_with_jemalloc() -> None:
    environment = with_jemalloc({"HOME": "/home"}, LIBRARY)
    assert environment is not None
    assert environment["LD_PRELOAD"] == str(LIBRARY)
    assert environment["HOME"] == "/home"
    assert "dirty_decay_ms" in environment["MALLOC_CONF"]


def test_it_is_not_started_again_for_ever() -> None:
    environment = with_jemalloc({}, LIBRARY)
    assert environment is not None
    assert with_jemalloc(environment, LIBRARY) is None


def test_what_the_user_has_chosen_stays() -> None:
    assert with_jemalloc({"LD_PRELOAD": ""}, LIBRARY) is None
    environment = with_jemalloc({"MALLOC_CONF": "narenas:1"}, LIBRARY)
    assert environment is not None
    assert environment["MALLOC_CONF"] == "narenas:1"


def test_a_machine_without_jemalloc_goes_on_as_it_is(tmp_path: Path) -> None:
    assert find_jemalloc(tmp_path) is None
    assert with_jemalloc({}, None) is None


def test_jemalloc_is_found_where_distributions_put_it(tmp_path: Path) -> None:
    library = tmp_path / "usr/lib64/libjemalloc.so.2"
    library.parent.mkdir(parents=True)
    library.touch()
    assert find_jemalloc(tmp_path) == library


@pytest.mark.skipif(
    find_jemalloc() is None, reason="jemalloc is not on this machine (libjemalloc2)"
)
@pytest.mark.parametrize(
    "start", [["-m", "dedupe_worker"], [Path(sys.executable).with_name("dedupe-worker")]]
)
def test_a_worker_runs_with_it_whichever_way_it_is_started(
    start: list[str | Path], tmp_path: Path
) -> None:
    """The worker has to be told apart from what it was before: a config that is a pipe keeps it until it was seen."""
    config = tmp_path / "stream.yaml"
    os.mkfifo(config)
    command = [
        sys.executable,
        *start,
        "--config",
        config,
        "--partition",
        "0",
        "--state-dir",
        tmp_path,
    ]
    without = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    process = subprocess.Popen(command, env=without, stderr=subprocess.DEVNULL)
    try:
        with config.open("w"):  # returns when the worker reads it
            maps = Path(f"/proc/{process.pid}/maps").read_text()
    finally:
        process.kill()
        process.wait()
    assert "libjemalloc.so.2" in maps
