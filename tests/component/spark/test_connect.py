"""Reads work in a session of Spark Connect, whose server is another process; other jobs are refused by name."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dedupe_local.run.child_process import spawn
from dedupe_local.servers.kafka import free_ports
from dedupe_pipeline.runtime.jars import spark_kafka
from tests.support.fixtures import CreateStream
from tests.support.patience import wait_for
from tests.support.spark import reading, remote_jobs
from tests.support.spark.environments import SparkEnvironment, build_wheel, connect_environment
from tests.support.spark.session import SMALL
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import ID_PATH, order, produce_in_transaction

pytestmark = [pytest.mark.matrix, pytest.mark.timeout(3_600)]

SEED = 8
RECORDS = 400
DEADLINE_SECONDS = 900
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@pytest.fixture(scope="module", name="here")
def _here(tmp_path_factory: pytest.TempPathFactory) -> SparkEnvironment:
    wheel = build_wheel(tmp_path_factory.mktemp("dist"))
    return connect_environment(wheel, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", name="remote")
def _remote(here: SparkEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a server, and return its address."""
    directory, (port,) = tmp_path_factory.mktemp("server"), free_ports(1)
    settings = {
        **SMALL,
        "spark.jars": ",".join(map(str, spark_kafka())),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
    }
    confs: list[str | Path] = [f"--conf={name}={value}" for name, value in settings.items()]
    log = directory / "log"
    command: list[str | Path] = [
        here.python.parent / "spark-submit",
        "--master",
        "local[2]",
        "--class",
        SERVER,
    ]
    with ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))
        server = spawn([*command, *confs], output=output, env=here.variables())
        stack.callback(server.wait, 60)
        stack.callback(server.kill)
        wait_for(
            lambda: "Spark Connect server started" in log.read_text() or None,
            "the server runs",
            deadline_seconds=DEADLINE_SECONDS,
            explain=log.read_text,
        )
        yield f"sc://127.0.0.1:{port}"


@pytest.fixture
def stream(streams: CreateStream) -> TestStream:
    made = streams(partitions=2, id={"from": "JsonPath", "path": ID_PATH})
    sent = [order(SEED, number, partitions=2) for number in range(RECORDS)]
    made.send(sent)
    for commit in (False, True):
        produce_in_transaction(made.bootstrap_servers, made.output_topic, sent, commit=commit)
    return made


@pytest.mark.parametrize("kind", ["batch", "stream"])
@pytest.mark.parametrize("how", ["clean", "source"])
def test_a_remote_session_reads_every_record(  # noqa: PLR0917 (pytest passes them by name)
    here: SparkEnvironment, remote: str, stream: TestStream, tmp_path: Path, how: str, kind: str
) -> None:
    output = tmp_path / "rows.json"
    words = (reading.__file__, how, kind, stream.manifest, output, tmp_path / "checkpoint")

    done = here.run(words, seconds=DEADLINE_SECONDS, SPARK_REMOTE=remote)

    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(line) for line in output.read_text().splitlines()) == sorted(
        [r.partition, r.offset, (r.key or b"").hex(), (r.value or b"").hex()]
        for r in stream.clean()
    )


def test_a_remote_session_audits_and_refuses_other_jobs_by_name(
    here: SparkEnvironment, remote: str, stream: TestStream, tmp_path: Path
) -> None:
    words = (remote_jobs.__file__, stream.manifest, tmp_path)

    done = here.run(words, seconds=DEADLINE_SECONDS, SPARK_REMOTE=remote)

    assert done.returncode == 0, done.stderr
    ended = dict(map(json.loads, done.stdout.splitlines()))
    assert ended.pop("audit") == "CLEAN"
    assert "makes no session of Spark Connect" in ended.pop("session")
    for job, said in ended.items():
        assert f"RequestRefused: {job} cannot run in a session of Spark Connect" in said
    assert {path.name for path in tmp_path.iterdir()} == {stream.manifest.name}
