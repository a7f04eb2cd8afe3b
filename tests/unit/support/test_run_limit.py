from pathlib import Path

import pytest

pytest_plugins = "pytester"

ROOT = Path(__file__).parents[3]
# The limit is over some seconds after the test has begun, in whichever process.
CONFTEST = """
import os, time
from tests.support.run_limit import LIMIT_SECONDS, STARTED, end_in_time

def pytest_runtest_setup(item):
    soon = 13 if hasattr(item.config, "workerinput") else 3
    os.environ[STARTED] = str(time.time() - LIMIT_SECONDS + soon)
    end_in_time(item.config)
"""
HANGS = """
import time

def test_that_hangs():
    time.sleep(3600)
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(CONFTEST)
    return pytester


@pytest.mark.parametrize("processes", [(), ("-n", "1")], ids=["one process", "xdist"])
def test_a_command_without_an_end_is_ended_with_its_stacks(
    run: pytest.Pytester, processes: tuple[str, ...]
) -> None:
    run.makepyfile(HANGS)
    done = run.runpytest_subprocess("-s", "-p", "no:cacheprovider", *processes)
    assert done.ret
    assert "in test_that_hangs" in done.stderr.str()


def test_a_command_that_ends_is_not_touched(run: pytest.Pytester) -> None:
    run.makeconftest("from tests.support.run_limit import end_in_time as pytest_configure")
    run.makepyfile("def test_that_ends(): pass")
    run.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
