"""Routers with TLS and a password: from a file, and never shown."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
import yaml
from confluent_kafka.admin import (  # type: ignore[attr-defined] # they are public
    AclOperation,
    ResourceType,
)

from dedupe_crds.manifest import load_manifest
from dedupe_growth.controller import FormerInputUnreadable, GrowthController
from dedupe_kafka.client import read_properties
from dedupe_kafka.cluster import Cluster
from tests.component.worker.test_security import allow
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
    return secured_stream(secured, tmp_path, inputs=1)


def secured_stream(secured: SecuredBroker, directory: Path, *, inputs: int) -> RoutedStream:
    names = [f"raw-{uuid4().hex[:8]}" for _ in range(inputs)]
    for raw in names:
        Cluster(secured.bootstrap_servers).create(raw, 1, 1, {})
    clean = f"clean-{uuid4().hex[:8]}"
    servers = secured.bootstrap_servers
    made = routed_manifest(directory, servers, names, clean, partitions=2)
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


def test_a_former_input_that_may_not_be_read_any_more_holds_nothing_but_a_growth(
    secured: SecuredBroker, routers: Routers, tmp_path: Path
) -> None:
    """Take the rights with the input that is taken out of the manifest."""
    stream = secured_stream(secured, tmp_path, inputs=2)
    stays, goes = stream.inputs
    router = with_password(PASSWORD, secured, stream, routers, tmp_path)
    for topic in stream.inputs:
        stream.send_to(topic, [Message(0, b"k", b"v")])
    stream.wait_until_routed()
    assert router.sigterm() == 0
    document = yaml.safe_load(stream.manifest.read_text())
    document["spec"]["input"] = {"topics": [stays]}
    document["spec"]["repartition"]["partitions"] = 3
    stream.manifest.write_text(yaml.safe_dump(document))
    allow(secured, ResourceType.TOPIC, goes, AclOperation.DESCRIBE)

    router = with_password(PASSWORD, secured, stream, routers, tmp_path)
    stream.send_to(stays, [Message(0, b"l", b"v")])
    router.wait_until(lambda: router.status().counts.routed == 1, "the other one is routed")
    router.wait_until(lambda: "FormerInputHeld" in router.status().warnings, "it is named")
    assert router.status().ready
    manifest = load_manifest(stream.manifest)
    properties = read_properties(tmp_path / "client.properties")
    cluster = Cluster(manifest.spec.kafka.bootstrap_servers, properties)
    cluster.ensure_output(manifest)
    controller = GrowthController(manifest, properties, cluster)
    with pytest.raises(FormerInputUnreadable, match=f"{goes} was an input"):
        controller.step(3, {})
    assert controller.epochs.prepared == 0

    allow(secured, ResourceType.TOPIC, goes, AclOperation.READ)
    assert controller.step(3, {}), "it begins"
    router.wait_until(lambda: not router.status().warnings, "its offsets can be committed")
