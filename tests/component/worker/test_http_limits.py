"""A worker's probes while its API is filled: by connections and bodies. Needs no broker."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx
import pytest
import yaml

from dedupe_crds.status.exit_code import ExitCode
from dedupe_local.servers.kafka import free_ports
from tests.support.patience import HANG_SECONDS, patience_clock
from tests.support.processes.loopback import HTTP
from tests.support.processes.processes import WorkerProcess
from tests.support.traffic.streams import TestStream
from tests.unit.crds.manifests import MINIMAL

TOKEN = "correct-horse"  # noqa: S105 # nobody's
CONNECTIONS = 150
PROBE_SECONDS = 3.0
"""The time-out of Kubernetes' probes."""


@pytest.fixture(scope="module")
def probes() -> str:
    (port,) = free_ports(1)
    return f"127.0.0.1:{port}"


def start(directory: Path, probes: str) -> WorkerProcess:
    """A worker whose broker does not answer, so that its commands wait."""
    manifest, token = directory / "stream.yaml", directory / "token"
    document = yaml.safe_load(yaml.safe_dump(MINIMAL))
    document["spec"]["kafka"]["bootstrapServers"] = "127.0.0.1:1"
    manifest.write_text(yaml.safe_dump(document))
    token.write_text(TOKEN)
    stream = cast(TestStream, SimpleNamespace(manifest=manifest, name="orders"))
    return WorkerProcess(
        stream,
        0,
        directory / "state",
        arguments=["--admin-token-file", token, "--probe-address", probes],
    )


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, probes: str) -> Iterator[WorkerProcess]:
    worker = start(tmp_path_factory.mktemp("worker"), probes)
    worker.endpoint()
    yield worker
    worker.sigkill()


@pytest.fixture
def connections() -> Iterator[ExitStack]:
    with ExitStack() as connections:
        yield connections


def connect(connections: ExitStack, address: str, sent: bytes) -> None:
    host, _, port = address.partition(":")
    client = connections.enter_context(
        socket.create_connection((host, int(port)), timeout=HANG_SECONDS)
    )
    client.sendall(sent)


def probe(address: str, path: str) -> httpx.Response:
    began = patience_clock()
    answer = HTTP.get(f"http://{address}/{path}", timeout=HANG_SECONDS)
    assert patience_clock() - began < PROBE_SECONDS
    return answer


def assert_alive(*addresses: str) -> None:
    for address in addresses:
        assert probe(address, "healthz").status_code == httpx.codes.OK
        assert probe(address, "readyz").json()["ready"] is False


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /lookup HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
        b"POST /lookup HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ids=["half-open", "body to come", "chunks to come"],
)
def test_connections_that_stay_open_stop_no_probe(
    worker: WorkerProcess, probes: str, connections: ExitStack, sent: bytes
) -> None:
    for address in (worker.endpoint(), probes):
        for _ in range(CONNECTIONS):
            connect(connections, address, sent)
    assert_alive(worker.endpoint(), probes)


def test_a_large_body_costs_no_memory_and_no_disk(worker: WorkerProcess) -> None:
    url = f"http://{worker.endpoint()}/lookup"
    status = Path(f"/proc/{worker.pid}/status")

    def resident_kib() -> int:
        (line,) = [each for each in status.read_text().splitlines() if each.startswith("VmRSS")]
        return int(line.split()[1])

    def large() -> Iterator[bytes]:
        for _ in range(64):
            yield b"x" * (1 << 20)

    before = resident_kib()
    for content in (large(), b"x" * (64 << 20)):
        try:
            answer = HTTP.post(url, content=content, timeout=HANG_SECONDS)
        except httpx.TransportError:
            continue  # closed before all of it was sent
        assert answer.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE
    assert resident_kib() - before < 32 << 10
    assert not [
        link
        for link in Path(f"/proc/{worker.pid}/fd").iterdir()
        if "(deleted)" in str(link.readlink())
    ]


def test_an_address_that_is_taken_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "{}:{}".format(*taken.getsockname())
        worker = start(tmp_path, address)
        assert worker.wait_until_ended() == ExitCode.CONFIG
    last = worker.logs()[-1]
    assert last["event"] == "worker can't start"
    assert last["error"].startswith(f"{address} cannot be used: ")
