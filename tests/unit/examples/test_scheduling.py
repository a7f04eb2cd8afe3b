"""The examples of schedules: their commands are read by the real command line, and exit codes are told apart."""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cronsim import CronSim

from tests.support import argo
from tests.support.patience import wait_for
from tests.support.scheduling import EXAMPLES, Crontab, cron_environment

DAG = ast.parse((EXAMPLES / "airflow_dag.py").read_text())
WORKFLOW: dict[str, Any] = yaml.safe_load((EXAMPLES / "cronworkflow.yaml").read_text())
TEMPLATES = {each["name"]: each for each in WORKFLOW["spec"]["workflowSpec"]["templates"]}

# `make_context` reads the arguments of a command as a run does, and checks their values.
PARSE = """
import json, sys
import click
from dedupe_pipeline.cli import main
for name, *arguments in json.load(sys.stdin):
    try:
        main.commands[name].make_context(name, arguments)
        print("well")
    except click.ClickException as error:
        print(error.format_message())
"""


def parsed(commands: list[list[str]]) -> list[str]:
    """Read the arguments by the real command line, in one process; return "well" or the error of each."""
    done = subprocess.run(
        [sys.executable, "-c", PARSE],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def dag_commands() -> list[list[str]]:
    """The commands of the DAG's tasks, with its constants filled in."""
    constants = {
        node.targets[0].id: node.value.value
        for node in DAG.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    found = []
    for call in (node for node in ast.walk(DAG) if isinstance(node, ast.Call)):
        for keyword in call.keywords:
            if keyword.arg == "bash_command":
                code = compile(ast.Expression(keyword.value), "airflow_dag.py", "eval")
                found.append(shlex.split(eval(code, constants)))  # noqa: S307 # an f-string of the example
    return found


def cron_commands() -> list[list[str]]:
    crontab = Crontab.read()
    lines = [shlex.split(_filled(line.command, crontab.variables)) for line in crontab.lines]
    assert [line[0] for line in lines] == ["run_job.sh"] * 2
    return [line[1:] for line in lines]


def _filled(text: str, variables: dict[str, str]) -> str:
    return re.sub(r"\$([A-Z]+)", lambda name: variables[name[1]], text)


def workflow_commands() -> list[list[str]]:
    return [
        ["dedupe-pipeline", *TEMPLATES[name]["container"]["args"]] for name in ("land", "audit")
    ]


COMMANDS = [*cron_commands(), *dag_commands(), *workflow_commands()]


def test_each_example_lands_and_audits_by_the_command_line() -> None:
    assert [command[:2] for command in COMMANDS] == [
        ["dedupe-pipeline", "land"],
        ["dedupe-pipeline", "audit"],
    ] * 3
    wrong = [[*COMMANDS[0], "--no-such-option"], [*COMMANDS[0], "--every=often"]]

    found = parsed([command[1:] for command in [*COMMANDS, *wrong]])

    assert found[: len(COMMANDS)] == ["well"] * len(COMMANDS)
    assert "No such option" in found[-2]
    assert "--every" in found[-1]


def test_schedules_are_times_of_cron() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    schedules: list[object] = [line.schedule for line in Crontab.read().lines]
    schedules += WORKFLOW["spec"]["schedules"]
    schedules += [
        keyword.value.value
        for node in ast.walk(DAG)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "schedule" and isinstance(keyword.value, ast.Constant)
    ]
    assert len(schedules) == 4
    for schedule in map(str, schedules):
        times = CronSim(schedule, start)
        first, second = next(times), next(times)
        assert second - first in {timedelta(hours=1), timedelta(days=1)}


def test_the_workflow_is_one_the_api_server_takes() -> None:
    assert argo.errors(WORKFLOW) == []
    assert argo.errors(WORKFLOW | {"spec": WORKFLOW["spec"] | {"cron": "7 * * * *"}}) != []


def test_only_the_audit_of_the_workflow_ends_well_without_a_record(tmp_path: Path) -> None:
    tool = tmp_path / "dedupe-pipeline"
    tool.write_text('#!/bin/sh\nexit "$2"\n')
    tool.chmod(0o755)
    command = TEMPLATES["audit"]["container"]["command"]
    for code, wanted in ((0, 0), (1, 1), (2, 2), (3, 3), (4, 0), (143, 143)):
        path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run([*command, "audit", str(code)], env=path, check=False)
        assert done.returncode == wanted


@pytest.mark.parametrize(
    ("code", "wanted", "told"),
    [
        (0, 0, ""),
        (4, 0, ""),
        (1, 1, "it found defects"),
        (2, 2, "is wrong"),
        (3, 3, "the next run continues"),
        (130, 130, "stopped before it was done: the next run continues"),
        (143, 143, "stopped before it was done: the next run continues"),
    ],
)
def test_cron_sends_a_mail_only_if_there_is_something_to_do(
    tmp_path: Path, code: int, wanted: int, told: str
) -> None:
    job = f"echo the result; echo a reason >&2; exit {code}"
    done = subprocess.run(
        ["run_job.sh", "sh", "-c", job],  # noqa: S607 # the example
        env=cron_environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == wanted
    assert done.stderr == ""
    if told:
        assert told in done.stdout
        assert "the result\na reason" in done.stdout
        assert f"exit code {code}:" in done.stdout
    else:
        assert done.stdout == ""


def test_a_job_of_cron_that_still_runs_is_not_started_again(tmp_path: Path) -> None:
    go, ran = tmp_path / "go", tmp_path / "ran"
    job = f"echo >>{ran}; until [ -e {go} ]; do sleep 0.05; done"
    command, env = ["run_job.sh", "sh", "-c", job], cron_environment(tmp_path)
    with subprocess.Popen(command, env=env) as first:
        wait_for(ran.exists, "the first runs")
        second = subprocess.run(command, env=env, check=False, timeout=60)
        go.touch()
    assert (first.returncode, second.returncode) == (0, 0)
    assert ran.read_text() == "\n"
