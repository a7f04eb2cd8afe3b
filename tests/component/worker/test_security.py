"""Credentials come from a file and are never shown; missing ACLs are named."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # NewTopic is public
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from dedupe_crds.status.exit_code import ExitCode
from tests.support.checker.checker import judge
from tests.support.checker.id_sources import key_id
from tests.support.patience import HANG_SECONDS
from tests.support.processes.processes import WorkerProcess, Workers
from tests.support.processes.secured_broker import PASSWORD, USER, Certificate, SecuredBroker
from tests.support.traffic.streams import TestStream, stream_manifest
from tests.support.traffic.traffic import retries

SEED = 20261121
WRONG = "not-the-password-of-anyone"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    directory = tmp_path_factory.mktemp("secured")
    with SecuredBroker(directory / "broker", Certificate.make(directory)) as running:
        yield running


@pytest.fixture
def stream(secured: SecuredBroker, tmp_path: Path) -> TestStream:
    """Return a stream whose workers use the listener with TLS and a password."""
    return secured_stream(secured, tmp_path)


def secured_stream(
    secured: SecuredBroker, directory: Path, *, routed: bool = False, **spec: object
) -> TestStream:
    """Create a stream with its topics.

    `routed` sends duplicates to a third topic, with a fourth for their owners.
    """
    name = uuid4().hex[:8]
    raw, clean = f"raw-{name}", f"clean-{name}"
    side_topics = [f"{clean}-duplicates", f"{clean}-owners"] if routed else []
    if routed:
        spec["duplicates"] = {"policy": "Topic", "topic": side_topics[0]}
    admin = AdminClient({"bootstrap.servers": secured.bootstrap_servers})
    keeps_all = {"retention.ms": "-1"}  # what is sent is of another year
    topics = [NewTopic(topic, 1, config=keeps_all) for topic in (raw, clean, *side_topics)]
    for created in admin.create_topics(topics).values():
        created.result(HANG_SECONDS)
    open_stream = stream_manifest(directory, secured.bootstrap_servers, raw, clean, **spec)
    secured_text = open_stream.manifest.read_text().replace(
        secured.bootstrap_servers, secured.secured_servers
    )
    open_stream.manifest.write_text(secured_text)
    return open_stream


def with_password(
    password: str, secured: SecuredBroker, stream: TestStream, workers: Workers
) -> WorkerProcess:
    properties = stream.manifest.with_suffix(f".{uuid4().hex[:4]}.properties")
    properties.write_text(secured.client_properties(password))
    return workers.start(stream, arguments=["--kafka-properties", properties])


@pytest.mark.proof
def test_a_stream_behind_tls_and_a_password_is_deduplicated(
    secured: SecuredBroker, stream: TestStream, workers: Workers
) -> None:
    stream.send(retries(SEED, 5_000))
    worker = with_password(PASSWORD, secured, stream, workers)
    worker.wait_until_caught_up()
    judge(stream.raw(), stream.clean(), key_id).assert_exactly_once(5_000)
    said = worker.log_path.read_text() + worker.get("/status").text + worker.get("/metrics").text
    assert worker.sigterm() == ExitCode.OK
    assert PASSWORD not in said + worker.log_path.read_text()


def test_a_wrong_password_is_named_and_not_told(
    secured: SecuredBroker, stream: TestStream, workers: Workers
) -> None:
    worker = with_password(WRONG, secured, stream, workers)
    worker.wait_until(
        lambda: worker.readiness().body["reason"] == "NotAuthorized",
        "the worker says that its credentials are refused",
    )
    assert worker.readiness().http_status == 503
    assert WRONG not in worker.log_path.read_text() + worker.get("/status").text
    assert worker.sigterm() == ExitCode.OK


def allow(
    secured: SecuredBroker,
    kind: ResourceType,
    name: str,
    *operations: AclOperation,
    user: str = USER,
) -> None:
    """Grant a user an ACL on a resource; the first ACL denies all other access."""
    admin = AdminClient({"bootstrap.servers": secured.bootstrap_servers})
    of = (kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*")
    rights = [AclBinding(*of, operation, AclPermissionType.ALLOW) for operation in operations]
    for made in admin.create_acls(rights).values():
        made.result(HANG_SECONDS)


@pytest.mark.parametrize(
    ("topic", "needed"),
    [
        ("raw{}", [AclOperation.READ]),
        ("clean{}", [AclOperation.READ, AclOperation.WRITE]),
        ("clean{}-duplicates", [AclOperation.WRITE]),
        ("clean{}-owners", [AclOperation.READ, AclOperation.WRITE]),
    ],
)
def test_a_right_that_a_topic_lacks_is_named_and_what_was_granted_is_used(
    secured: SecuredBroker,
    tmp_path: Path,
    workers: Workers,
    topic: str,
    needed: list[AclOperation],
) -> None:
    stream = secured_stream(secured, tmp_path, routed=True)
    name = topic.format(stream.input_topic.removeprefix("raw"))
    allow(secured, ResourceType.TOPIC, name, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    stream.send(retries(SEED, 500))
    worker = with_password(PASSWORD, secured, stream, workers)
    names = " and ".join(sorted(operation.name for operation in needed))
    worker.wait_until(
        lambda: (
            f"topic {name}: the Kafka credentials lack the ACL {names}"
            in str(worker.readiness().body)
        ),
        "the worker says what its credentials lack",
    )
    assert worker.readiness().body["reason"] == "NotAuthorized"
    allow(secured, ResourceType.TOPIC, name, *needed)
    worker.wait_until_caught_up()
    judge(stream.raw(), stream.clean(), key_id).assert_exactly_once(500)


@pytest.mark.parametrize("delivery", ["ExactlyOnce", "AtLeastOnce"])
def test_a_group_that_is_closed_to_the_worker_is_named(
    secured: SecuredBroker, tmp_path: Path, workers: Workers, delivery: str
) -> None:
    stream = secured_stream(secured, tmp_path, delivery=delivery)
    allow(secured, ResourceType.GROUP, stream.group, AclOperation.READ, user="another")
    worker = with_password(PASSWORD, secured, stream, workers)
    worker.wait_until(
        lambda: worker.readiness().body["reason"] == "NotAuthorized",
        "the worker says that its group is closed to it",
    )
    assert stream.group in worker.readiness().body["message"]


def test_properties_that_would_undo_the_guarantees_are_refused(
    secured: SecuredBroker, stream: TestStream, workers: Workers, tmp_path: Path
) -> None:
    properties = tmp_path / "own.properties"
    properties.write_text(
        secured.client_properties(PASSWORD) + "isolation.level=read_uncommitted\n"
    )
    worker = workers.start(stream, arguments=["--kafka-properties", properties])
    assert worker.wait_until_ended() == ExitCode.CONFIG
    assert "isolation.level" in worker.log_path.read_text()
    assert PASSWORD not in worker.log_path.read_text()
