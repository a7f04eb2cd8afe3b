"""Read examples/scheduling, and run its lines of cron as cron does."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

EXAMPLES: Final = Path(__file__).parents[2] / "examples/scheduling"


@dataclass(frozen=True)
class Line:
    """A line of a crontab."""

    schedule: str
    command: str


@dataclass(frozen=True)
class Crontab:
    """The variables and lines of the example's crontab."""

    variables: dict[str, str]
    lines: list[Line]

    @classmethod
    def read(cls) -> Self:
        """Read it as cron does: a line is a comment, a variable, or five fields and a command."""
        variables, lines = {}, []
        for text in (EXAMPLES / "crontab").read_text().splitlines():
            if not text or text.startswith("#"):
                continue
            if setting := re.fullmatch(r"([A-Z]+)=(.*)", text):
                variables[setting[1]] = setting[2]
                continue
            *fields, command = text.split(maxsplit=5)
            assert "%" not in command, "cron takes % for a line break"
            lines.append(Line(" ".join(fields), command))
        return cls(variables, lines)


def cron_environment(directory: Path) -> dict[str, str]:
    """Return variables as cron has them, with the real entry points; locks are in a directory."""
    programs = f"{EXAMPLES}:{Path(sys.executable).parent}:/usr/bin:/bin"
    user = {name: os.environ[name] for name in ("HOME", "JAVA_HOME") if name in os.environ}
    return {"PATH": programs, "LOCKS": str(directory), **user}


def run_line(
    line: Line, directory: Path, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run the command of a line by sh."""
    return subprocess.run(
        ["/bin/sh", "-c", line.command],
        env={**cron_environment(directory), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
