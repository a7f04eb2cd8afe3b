"""Figures of `dedupe size`, and docs/scale.md, which shows its output.

Both follow from the results.
"""

import re
import shlex
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from benchmarks.harness.machine import Machine
from benchmarks.scale.result import Scale
from dedupe_local.cli import main as dedupe
from dedupe_local.sizing.constants import MEASURED, Measured, measured
from dedupe_local.sizing.report import count, size_text

SCALE_PAGE: Final = Path(__file__).parents[2] / "docs" / "scale.md"

_PROMPT: Final = "$ dedupe "
_BLOCK: Final = re.compile(
    r"^```console\n(?P<command>\$ dedupe .*?[^\\]\n)(?P<shown>.*?)^```\n", re.MULTILINE | re.DOTALL
)
_COMMON: Final = re.compile(r"^All with `(?P<options>.*)`", re.MULTILINE)
_ITEM: Final = re.compile(r"^- (?P<name>[A-Z]): `dedupe (?P<command>.*?)`", re.MULTILINE)
_TABLE: Final = re.compile(r"^\| figure \| A \|.*\n(?:\|.*\n)+", re.MULTILINE)
_ROW: Final = re.compile(r"^(\S.*?)  +(\S.*?)  +.*$", re.MULTILINE)


def figures_of(result: Scale, machine: Machine) -> Measured:
    """Return the constants of a complete result."""
    if result.rebuild is None:
        raise ValueError("a rebuild was not measured")
    large = result.largest
    base, per_id = result.memory_line()
    limit = f" in {size_text(result.limit_bytes)} of memory" if result.limit_bytes else ""
    return Measured(
        source=(
            f"`make bench-scale`, one partition with up to {count(large.keys)} ids{limit}, "
            f"{machine.measured:%Y-%m-%d} on {machine.cpu}, {machine.cores} cores, the broker on the same"
        ),
        ids=large.keys,
        messages_per_cpu_second=large.run.per_cpu_second,
        messages_per_second=large.run.per_second,
        bytes_per_id=large.bytes_per_id,
        write_amplification=result.write_amplification,
        memory_base_bytes=int(base),
        memory_bytes_per_id=max(0.0, per_id),
        start_seconds=large.restart.ready_seconds,
        rebuild_per_second=result.rebuild.per_second,
    )


def write_figures(figures: Measured, path: Path = MEASURED, page: Path = SCALE_PAGE) -> None:
    """Replace the constants, and what the page shows of them."""
    path.write_text(figures.model_dump_json(by_alias=True, indent=2) + "\n")
    measured.cache_clear()
    page.write_text(with_outputs(page.read_text()))


def with_outputs(text: str) -> str:
    """Return a page whose `dedupe` commands have the output that they have now.

    A command of a console block may continue after a backslash. Items "- A: `dedupe size ...`" are the columns of the
    table whose first header is "figure". Raises RuntimeError for a command that fails.
    """
    text = _BLOCK.sub(
        lambda block: f"```console\n{block['command']}{_output(block['command'])}```\n", text
    )
    return _TABLE.sub(lambda _: _table(text), text)


def commands_of(text: str) -> list[str]:
    """Return all commands of a page."""
    return [*(block["command"] for block in _BLOCK.finditer(text)), *_columns(text).values()]


def _columns(text: str) -> dict[str, str]:
    """Return the commands of the table by the names of their columns."""
    common = _COMMON.search(text)
    options = f" {common['options']}" if common else ""
    return {item["name"]: f"{_PROMPT}{item['command']}{options}" for item in _ITEM.finditer(text)}


def _table(text: str) -> str:
    """Return a row for each figure that a command prints, a column for each command."""
    columns = {
        name: dict(_ROW.findall(_output(command).partition("\n\n")[0]))
        for name, command in _columns(text).items()
    }
    lines = [["figure", *columns], ["---", *("---:" for _ in columns)]]
    figures = dict.fromkeys(figure for values in columns.values() for figure in values)
    lines += [[f, *(values.get(f, "") for values in columns.values())] for f in figures]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _output(command: str) -> str:
    arguments = shlex.split(command.removeprefix(_PROMPT).replace("\\\n", " "))
    done = CliRunner().invoke(dedupe, arguments, prog_name="dedupe")
    if done.exit_code != 0:
        raise RuntimeError(f"{command.strip()}: {done.output}")
    return done.output


if __name__ == "__main__":
    SCALE_PAGE.write_text(with_outputs(SCALE_PAGE.read_text()))
