"""The reader of a run's output ends first, as in `dedupe run … | head -1`."""

import os
import subprocess
import sys

_SCRIPT = """
from dedupe_local.cli import _errors_as_messages
from dedupe_local.run.live_table import RunConsole, print_line
from click import ClickException
try:
    with _errors_as_messages():
        print_line(RunConsole(), "State directory: /state")
except ClickException as error:
    error.show()
    raise SystemExit(error.exit_code)
"""


def test_a_closed_output_ends_the_run_with_what_to_do() -> None:
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write)

    assert ended.returncode == 3
    assert "the process that read its output has ended" in ended.stderr
    assert "to a file" in ended.stderr
    assert "Traceback" not in ended.stderr
