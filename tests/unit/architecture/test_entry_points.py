"""Each command that the package installs, and each command below it, has -h and --version."""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

ROOT = Path(__file__).parents[3]
SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


def command_of(script: str) -> click.Command:
    """Return the command of a script; some begin with a function that imports it."""
    module, name = SCRIPTS[script].split(":")
    main = getattr(import_module(module), name)
    if not isinstance(main, click.Command):
        main = import_module(f"{module.partition('.')[0]}.cli").main
    assert isinstance(main, click.Command)
    return main


def paths(command: click.Command) -> Iterator[list[str]]:
    """The words that lead to a command and to each below it."""
    yield []
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from ([name, *rest] for rest in paths(each))


PATHS = [(script, path) for script in SCRIPTS for path in paths(command_of(script))]


@pytest.mark.parametrize(("script", "path"), PATHS, ids=[" ".join([s, *p]) for s, p in PATHS])
def test_every_command_has_short_help_and_a_version(script: str, path: list[str]) -> None:
    def said(option: str) -> str:
        done = CliRunner().invoke(command_of(script), [*path, option], prog_name=script)
        assert done.exit_code == 0, done.output
        return done.output

    assert said("-h") == said("--help")
    assert said("-h").startswith(f"Usage: {' '.join([script, *path])} ")
    assert "  -h, --help " in said("-h")
    assert said("--version") == f"{script}, version {version('dedupestream')}\n"


def test_help_of_a_group_names_each_of_its_commands() -> None:
    for script in SCRIPTS:
        command = command_of(script)
        if isinstance(command, click.Group):
            shown = CliRunner().invoke(command, ["-h"]).output.partition("Commands:")[2]
            assert set(command.commands) <= set(shown.split()), script


def test_all_commands_are_found() -> None:
    assert len({script for script, _ in PATHS}) == len(SCRIPTS) >= 6
    assert ("dedupe", ["size"]) in PATHS
    assert ("dedupe-worker", ["bootstrap"]) in PATHS
    assert ("kubectl-dedupe", ["status"]) in PATHS


@pytest.mark.parametrize("script", SCRIPTS)
def test_an_installed_script_shows_its_version(script: str) -> None:
    path = Path(sys.executable).with_name(script)
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    assert done.stdout == f"{script}, version {version('dedupestream')}\n", done.stderr


@pytest.mark.parametrize("script", ["dedupe-worker", "dedupe-router", "dedupe-operator"])
def test_no_variable_of_the_environment_asks_for_the_version(script: str) -> None:
    variable = f"{script.upper().replace('-', '_')}_VERSION"
    for name in (variable, variable.replace("_VERSION", "_RUN_VERSION")):
        done = CliRunner(env={name: "1"}).invoke(command_of(script), [])
        assert done.exit_code == 2, done.output
        assert "Missing option" in done.output


@pytest.mark.parametrize(
    ("module", "slow"),
    [
        ("dedupe_worker.cli", {"boto3", "jsonpath", "regex"}),
        ("dedupe_local.cli", {"boto3", "jsonpath", "pyspark", "regex"}),
        ("dedupe_pipeline.cli", {"jsonpath", "matplotlib", "pandas"}),
    ],
)
def test_a_start_does_not_import_what_few_uses_need(module: str, slow: set[str]) -> None:
    script = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    modules = set(done.stdout.split())
    assert module in modules
    assert slow & modules == set()
