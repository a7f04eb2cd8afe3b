"""No failure ends with the exit code of defects."""

import click
import pytest
from click.testing import CliRunner

from dedupe_crds.exit_status import CommandFailed, Commands, ExitStatus


@click.group(cls=Commands)
def main() -> None:
    """Commands that end in each way."""


@main.command()
@click.argument("way")
def end(way: str) -> None:
    """End in a way."""
    ends: dict[str, BaseException] = {
        "unexpected": KeyError("unexpected"),
        "ctrl-c": KeyboardInterrupt(),
        "abort": click.Abort(),
        "mendable": CommandFailed("mend it", ExitStatus.FAILED),
        "option": click.BadParameter("is wrong"),
        "found": click.exceptions.Exit(1),
        "done": click.exceptions.Exit(0),
    }
    raise ends[way]


@pytest.mark.parametrize(
    ("way", "code", "traceback"),
    [
        ("unexpected", 3, True),
        ("ctrl-c", 130, False),
        ("abort", 130, False),
        ("mendable", 3, False),
        ("option", 2, False),
        ("found", 1, False),
        ("done", 0, False),
    ],
)
def test_each_end_has_its_exit_code(way: str, code: int, traceback: bool) -> None:
    done = CliRunner().invoke(main, ["end", way])

    assert done.exit_code == code
    assert ("Traceback" in done.output) == traceback


def test_a_wrong_option_and_an_unknown_command_are_wrong_usage() -> None:
    assert CliRunner().invoke(main, ["end", "--no-such-option"]).exit_code == 2
    assert CliRunner().invoke(main, ["no-such-command"]).exit_code == 2
