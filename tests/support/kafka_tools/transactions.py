"""Run kafka-transactions.sh: the class that the script starts, from a jar that is locked by its checksum."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Final

from dedupe_pipeline.runtime.jars import KAFKA_BROKER, kafka_broker, resolve
from dedupe_pipeline.runtime.java import find_java
from tests.support.patience import HANG_SECONDS

_VERSION: Final = KAFKA_BROKER[0].rpartition(":")[2]
_TOOLS: Final = (f"org.apache.kafka:kafka-tools:{_VERSION}",)
_LOCKS: Final = Path(__file__).parent / "jars.json"
_SCRIPT: Final = "kafka-transactions.sh"
_CLASS: Final = "org.apache.kafka.tools.TransactionsCommand"


def commands_in(text: str) -> dict[str, str]:
    """Return the command lines between backquotes in a text, by the name of the tool's command.

    >>> commands_in("ask `kafka-transactions.sh --bootstrap-server b:1 list`")
    {'list': 'kafka-transactions.sh --bootstrap-server b:1 list'}
    """
    lines = re.findall(rf"`({re.escape(_SCRIPT)} [^`]+)`", text)
    return {shlex.split(line)[3]: line for line in lines}


def run(line: str) -> list[dict[str, str]]:
    """Run a command line of kafka-transactions.sh; return the rows that it prints, by column.

    Raises AssertionError with its output if it fails.
    """
    script, *arguments = shlex.split(line)
    assert script == _SCRIPT
    # All else that the tool needs is on the broker's class path.
    jars = [*resolve("kafka-tools", _TOOLS, transitive=False, locks=_LOCKS), *kafka_broker()]
    done = subprocess.run(
        [find_java(), "-cp", ":".join(map(str, jars)), _CLASS, *arguments],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return _rows(done.stdout)


def _rows(output: str) -> list[dict[str, str]]:
    """Return the rows of a table, whose columns are separated by tabs."""
    header, *rows = [
        [cell.strip() for cell in line.split("\t")] for line in output.splitlines() if line.strip()
    ] or [[]]
    return [dict(zip(header, row, strict=True)) for row in rows]
