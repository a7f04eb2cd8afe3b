"""Routers with TLS and a password: from a file, and never shown."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from dedupe_kafka.cluster import Cluster
from tests.support.checker.record import Message
from tests.support.processes.routers import RoutedStream, RouterProcess, Routers, routed_manifest
from tests.support.processes.secured_broker import PASSWORD, Certificate, SecuredBroker

WRONG = "not-the-password-of-anyone"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    directory = tmp_path_factory.mktemp("secured")
    with SecuredBroker(directory / "broker", Certificate.make(directory)) as running:
        yield running


@pytest.fixture
def stream(secured: SecuredBroker, tmp_path: Path) -> RoutedStream:
    """A stream whose routers use the listener with TLS and a password."""
    raw = f"raw-{uuid4().hex[:8]}"
    Cluster(secured.bootstrap_servers).create(raw, 1, 1, {})
    clean = f"clean-{uuid4().hex[:8]}"
    servers = secured.bootstrap_servers
    made = routed_manifest(tmp_path, servers, [raw], clean, partitions=2)
    text = made.manifest.read_text().replace(servers, secured.secured_servers)
    made.manifest.write_text(text)
    return made


def with_password(
    password: str, secured: SecuredBroker, stream: RoutedStream, routers: Routers, directory: Path
) -> RouterProcess:
    file = directory / "client.properties"
    file.write_text(secured.client_properties(password))
    return routers.start(stream, arguments=["--kafka-properties", file])


def test_with_the_right_password_it_routes(
    secured: SecuredBroker, stream: RoutedStream, routers: Routers, tmp_path: Path
) -> None:
    router = with_password(PASSWORD, secured, stream, routers, tmp_path)
    router.wait_until_ready()
    stream.send_to(stream.inputs[0], [Message(0, b"k", b"v")])
    stream.wait_until_routed()
    assert router.status().counts.routed == 1
    assert PASSWORD not in router.log_path.read_text()


def test_a_wrong_password_is_named_and_not_shown(
    secured: SecuredBroker, stream: RoutedStream, routers: Routers, tmp_path: Path
) -> None:
    router = with_password(WRONG, secured, stream, routers, tmp_path)
    router.wait_until(lambda: router.status().reason == "NotAuthorized", "it is refused")
    assert not router.status().ready
    shown = router.get("/status").text + router.get("/metrics").text
    assert WRONG not in shown + router.log_path.read_text()
