"""The logs of a process, in one of its own: they are settings of the whole interpreter."""

import json
import subprocess
import sys

from tests.support.patience import HANG_SECONDS

LOGGING = """
import logging, structlog
from dedupe_httpd.logs import configure_logs
configure_logs()
log = structlog.get_logger()
log.debug("not shown")
log.info("worker starts", partition=3)
logging.getLogger("library").info("not shown")
logging.getLogger("library").warning("slow %s", "disk")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("failed")
"""
WITHOUT_STRUCTLOG = """
import sys
sys.modules["structlog"] = None
import dedupe_httpd.logs
"""


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=True,
    )


def test_each_line_on_stderr_is_json_also_a_librarys() -> None:
    done = run(LOGGING)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.stdout == ""
    assert all(line.pop("timestamp").endswith("Z") for line in lines)
    own, library, failed = lines
    assert own == {"event": "worker starts", "level": "info", "partition": 3}
    assert library == {"event": "slow disk", "level": "warning"}
    assert failed.pop("exception").endswith("ZeroDivisionError: division by zero")
    assert failed == {"event": "failed", "level": "error"}


def test_the_operator_imports_the_module_without_structlog() -> None:
    assert run(WITHOUT_STRUCTLOG).stderr == ""
