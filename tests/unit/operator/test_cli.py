"""The operator's command line."""

import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from dedupe_operator import cli, health
from dedupe_operator.config import OperatorConfig

REQUIRED = ["--worker-image=worker:1", "--lease-namespace=shop"]


@pytest.fixture(name="started")
def _started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[OperatorConfig]]:
    """The configurations with which an operator would run; the log is restored at the end."""
    found: list[OperatorConfig] = []
    monkeypatch.setattr(cli, "run_operator", found.append)
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield found
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.parametrize("level", ["debug", "warning"])
def test_the_log_has_the_level_and_the_format_that_are_asked_for(
    started: list[OperatorConfig], level: str
) -> None:
    wanted = [f"--log-level={level}", "--log-format=text"]
    assert CliRunner().invoke(cli.main, [*REQUIRED, *wanted]).exit_code == 0
    assert len(started) == 1
    root = logging.getLogger()
    assert root.level == getattr(logging, level.upper())
    formatters = {type(each.formatter).__name__ for each in root.handlers if each.formatter}
    assert "ObjectJsonFormatter" not in formatters


def test_a_log_is_json_by_default(started: list[OperatorConfig]) -> None:
    assert CliRunner().invoke(cli.main, REQUIRED).exit_code == 0
    record = logging.makeLogRecord({"msg": "ready", "levelno": logging.INFO})
    texts = [each.format(record) for each in logging.getLogger().handlers if each.formatter]
    assert any(text.startswith('{"message": "ready"') for text in texts)
    assert started


def test_without_cluster_scope_there_is_no_failover(started: list[OperatorConfig]) -> None:
    CliRunner().invoke(cli.main, [*REQUIRED, "--no-cluster-scope"])
    assert [(each.failover, each.cluster_scope) for each in started] == [(False, False)]


def test_the_lease_is_valid_for_as_long_as_is_asked_for_and_not_for_less_than_renewals_take(
    started: list[OperatorConfig],
) -> None:
    runner = CliRunner()
    assert runner.invoke(cli.main, REQUIRED).exit_code == 0
    assert runner.invoke(cli.main, [*REQUIRED, "--lease-seconds=60"]).exit_code == 0
    assert [each.lease_seconds for each in started] == [15, 60]
    assert runner.invoke(cli.main, [*REQUIRED, "--lease-seconds=14"]).exit_code == 2


def test_a_bad_default_of_pods_is_refused_by_name(started: list[OperatorConfig]) -> None:
    bad = '{"volumes": [{"name": "state", "emptyDir": {}}]}'
    answer = CliRunner().invoke(cli.main, [*REQUIRED, f"--worker-pod={bad}"])
    assert answer.exit_code == 2
    assert "volumes.0.name: 'state' is a name of the operator's own" in answer.output
    assert "pydantic" not in answer.output
    assert not started


def test_a_default_of_pods_that_is_no_json_is_refused(started: list[OperatorConfig]) -> None:
    answer = CliRunner().invoke(cli.main, [*REQUIRED, "--worker-pod=tolerations: []"])
    assert answer.exit_code == 2
    assert "'--worker-pod': is not JSON" in answer.output
    assert not started


def test_an_address_that_is_taken_is_refused_by_name(
    started: list[OperatorConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve(config: OperatorConfig) -> None:
        started.append(config)
        health.serve(config.http_host, config.http_port, lambda: 0.0)

    monkeypatch.setattr(cli, "run_operator", serve)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "{}:{}".format(*taken.getsockname())
        answer = CliRunner().invoke(cli.main, [*REQUIRED, f"--http={address}"])
    assert started
    assert answer.exit_code == 2
    assert f"Error: --http: {address} cannot be used: " in answer.output


@pytest.mark.parametrize("address", ["8080", "localhost", "0.0.0.0:http", "0.0.0.0:65536"])
def test_an_address_that_is_none_is_refused(started: list[OperatorConfig], address: str) -> None:
    answer = CliRunner().invoke(cli.main, [*REQUIRED, f"--http={address}"])
    assert answer.exit_code == 2
    assert f"Error: --http: '{address}' is not of the form HOST:PORT" in answer.output
    assert not started


def test_a_cluster_that_cannot_be_used_is_a_failure_and_not_a_finding(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("dedupe-operator"), *REQUIRED],
        env={"KUBECONFIG": str(tmp_path / "absent"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "NoCredentials: no access to a cluster" in done.stderr
    assert "Traceback" not in done.stderr
