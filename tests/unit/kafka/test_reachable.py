"""Brokers that can't be reached are named within seconds, by each command that has a manifest."""

import socket
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dedupe_crds.deadline import Deadline
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_kafka.reachable import check_reachable
from dedupe_local.cli import main as dedupe
from dedupe_pipeline.cli import main as pipeline
from dedupe_worker.cli import main as worker


def only_sure(seconds: float) -> Deadline:
    """Wait without end for what is not sure, so that the test's own time limit ends it."""
    return Deadline(seconds if seconds < 5 else 1e6)


@pytest.mark.parametrize(
    ("servers", "named"),
    [
        ("127.0.0.1:1", r"127\.0\.0\.1:1: .*Connection refused"),
        ("localhost:1", r"localhost:1: .*Connection refused"),
        ("kafka.invalid:9092", r"kafka\.invalid:9092: Failed to resolve"),
        ("127.0.0.1:1,kafka.invalid:2", r"(?=.*127\.0\.0\.1:1: )(?=.*kafka\.invalid:2: )"),
    ],
)
def test_servers_that_refuse_or_are_unknown_are_named_at_once(servers: str, named: str) -> None:
    with pytest.raises(BrokerUnavailable, match=named):
        check_reachable(servers, {}, deadline=only_sure)


def test_a_server_that_may_still_answer_is_waited_for() -> None:
    """Another one refuses, and that is not enough."""
    waited = []

    def short(seconds: float) -> Deadline:
        waited.append(Deadline(seconds / 5))
        return waited[-1]

    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = f"127.0.0.1:{silent.getsockname()[1]},127.0.0.1:1"
        with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1: .*check that Kafka runs"):
            check_reachable(servers, {}, deadline=short)
    assert all(deadline.expired for deadline in waited)


COMMANDS = {
    "dedupe run": (dedupe, ["run", "{manifest}", "--state-dir", "{state}"]),
    "dedupe bootstrap": (
        dedupe,
        ["bootstrap", "{manifest}", "--from", "topic:past", "--state-dir", "{state}"],
    ),
    "dedupe index-filters": (dedupe, ["index-filters", "{manifest}", "--state-dir", "{state}"]),
    "dedupe-pipeline audit": (pipeline, ["audit", "{manifest}"]),
    "dedupe-pipeline land": (pipeline, ["land", "{manifest}", "--output", "{state}"]),
    "dedupe-pipeline aggregate": (pipeline, ["aggregate", "{manifest}", "{manifest}"]),
    "dedupe-pipeline bootstrap": (
        pipeline,
        ["bootstrap", "{manifest}", "--from", "topic:past", "--output", "{state}"],
    ),
    "dedupe-worker bootstrap": (
        worker,
        ["bootstrap", "--config", "{manifest}", "--partition", "0", "--from", "topic:past"],
    ),
}

MANIFEST = """\
apiVersion: dedupestream.io/v1alpha1
kind: DedupeStream
metadata: {name: orders}
spec:
  kafka: {bootstrapServers: "127.0.0.1:1"}
  input: {topic: orders}
  output: {topic: orders-clean, filter: {from: Header, name: country}}
  id: {from: Key}
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_names_the_brokers_of_its_manifest(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    manifest, state = tmp_path / "stream.yaml", tmp_path / "state"
    manifest.write_text(MANIFEST)
    command, arguments = COMMANDS[name]
    assert isinstance(command, click.Command)
    if command is worker:
        arguments = [*arguments, "--state-dir", "{state}"]
    words = [word.format(manifest=manifest, state=state) for word in arguments]

    done = CliRunner().invoke(command, words)

    said = done.output + "".join(capfd.readouterr())
    assert done.exit_code != 0
    assert "127.0.0.1:1: Connect to ipv4#127.0.0.1:1 failed: Connection refused" in said
    assert "Traceback" not in said
    assert not list(tmp_path.glob("state/broker"))
