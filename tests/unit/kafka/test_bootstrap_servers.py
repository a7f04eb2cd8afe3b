"""Bootstrap servers as options, as properties of a client, and in Spark."""

import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dedupe_filters.reader import FilteredReader
from dedupe_kafka.client import client_config
from dedupe_kafka.errors import InvalidConfig
from dedupe_local.cli import main as dedupe
from dedupe_pipeline.cli import main as pipeline
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.datasource.options import read_options
from examples.kubernetes.__main__ import main as flights
from tests.unit.crds.manifests import ORDERS

WRONG = ("localhost", "SASL_SSL://kafka:9092", "a:1,,b:2", "a:1, b:2", "kafka:65536", "::1:9092")
RIGHT = "kafka_1.shop.svc:9092,10.0.0.1:1,[::1]:65535"


@pytest.mark.parametrize("text", WRONG)
@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (dedupe, ("run",)),
        (dedupe, ("bootstrap", "--from", "topic:past")),
        (dedupe, ("index-filters",)),
        (pipeline, ("audit",)),
        (pipeline, ("land", "--output", "lake")),
        (pipeline, ("aggregate",)),
        (pipeline, ("bootstrap", "--from", "topic:past", "--output", "ids")),
        (flights, ()),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_an_option_of_another_form_is_refused_before_anything_starts(
    command: click.Command,
    arguments: tuple[str, ...],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    manifest = tmp_path / "stream.yaml"
    manifest.write_text(ORDERS)
    files = [] if command is flights else [str(manifest)]
    if "aggregate" in arguments:
        files.append(str(manifest))
    done = CliRunner().invoke(command, [*arguments, *files, "--bootstrap-servers", text])
    assert done.exit_code == 2, done.output
    assert f"'--bootstrap-servers': {text!r} must be host:port" in done.output
    assert list(tmp_path.iterdir()) == [manifest]


@pytest.mark.parametrize("text", WRONG)
@pytest.mark.parametrize(
    "use",
    [
        lambda text: client_config(text, {}),
        lambda text: FilteredReader(text, "orders-clean", values=None),
        lambda text: KafkaConnection(bootstrap_servers=text).spark_options(),
        lambda text: KafkaConnection(bootstrap_servers=text).cluster(),
        lambda text: read_options({"bootstrapServers": text, "topic": "orders-clean"}),
    ],
    ids=["a client", "a reader", "Spark's source", "a cluster", "the data source"],
)
def test_python_refuses_the_same_with_the_form_that_is_expected(
    use: Callable[[str], object], text: str
) -> None:
    with pytest.raises(InvalidConfig, match=re.escape(f"{text!r} must be host:port")):
        use(text)


def test_hosts_addresses_and_ports_are_taken_as_they_are() -> None:
    assert client_config(RIGHT, {})["bootstrap.servers"] == RIGHT
