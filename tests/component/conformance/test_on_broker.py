"""The scripts of the simulated Kafka on a broker: what the simulation was written from."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import psutil
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # public names
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from dedupe_kafka.client import parse_properties
from dedupe_kafka.clients import CLIENTS
from dedupe_local.servers.kafka import EmbeddedBroker
from tests.conftest import is_led
from tests.simulation.conformance.scripts import LOSSES, REFUSALS, SCRIPTS, Script
from tests.simulation.conformance.world import World
from tests.simulation.kafka.rights import Right
from tests.support.patience import HANG_SECONDS, LONGEST_SECONDS, patience
from tests.support.processes.brokers import flip, losing, mortal_broker
from tests.support.processes.secured_broker import PASSWORD, USER, Certificate, SecuredBroker


class BrokerWorld(World):
    """A broker that other tests use as well."""

    def __init__(self, broker: EmbeddedBroker, copies: Path | None = None) -> None:
        self._broker = broker
        self._copies = copies
        settings = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
        super().__init__(CLIENTS, f"script-{uuid4().hex[:8]}", settings)

    def create(self, topic: str, partitions: int = 1, **config: object) -> str:
        name = topic if topic.startswith(self.name) else f"{self.name}-{topic}"
        settings = {key: str(value) for key, value in config.items()}
        new = NewTopic(name, partitions, 1, config=settings)
        self.admin.create_topics([new])[name].result(HANG_SECONDS)
        self.wait_for(lambda: is_led(self.admin, name))
        return name

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(HANG_SECONDS)
        self.wait_for(lambda: topic not in self.admin.list_topics(timeout=HANG_SECONDS).topics)

    def add_partitions(self, topic: str, total: int) -> None:
        self.admin.create_partitions([NewPartitions(topic, total)])[topic].result(HANG_SECONDS)
        self.wait_for(
            lambda: (
                len(self.admin.list_topics(topic, timeout=HANG_SECONDS).topics[topic].partitions)
                == total
            )
        )

    def delete_records(self, topic: str, before: int) -> None:
        where = TopicPartition(topic, 0, before)
        self.admin.delete_records([where])[where].result(HANG_SECONDS)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        assert patience(LONGEST_SECONDS).wait_for(condition, poll_seconds=0.1)

    @contextmanager
    def losing(self, topic: str) -> Iterator[Callable[[], None]]:
        assert self._copies is not None
        with losing(self._broker, topic, self._copies) as lose:
            yield lose

    @contextmanager
    def flipped(self, topic: str, value: bytes) -> Iterator[None]:
        repair = flip(self._broker, topic, value)
        yield
        repair()

    @contextmanager
    def refusing(self, right: Right, name: str) -> Iterator[None]:
        raise NotImplementedError(f"without ACLs nobody lacks the right to {right} {name}")
        yield

    @contextmanager
    def frozen(self) -> Iterator[None]:
        os.kill(self._broker.pid, signal.SIGSTOP)
        process = psutil.Process(self._broker.pid)
        self.wait_for(lambda: process.status() == psutil.STATUS_STOPPED)
        try:
            yield
        finally:
            os.kill(self._broker.pid, signal.SIGCONT)


class SecuredWorld(BrokerWorld):
    """A broker with ACLs, and a user that has all rights to what has none."""

    def __init__(self, broker: SecuredBroker) -> None:
        super().__init__(broker)
        properties = parse_properties(broker.client_properties(PASSWORD), "the test")
        self._settings = {**properties, "bootstrap.servers": broker.secured_servers, "log_level": 0}

    @contextmanager
    def refusing(self, right: Right, name: str) -> Iterator[None]:
        kind, operation = _ACLS[right]
        # Where there is an ACL, all that it does not allow is refused.
        allowed = AclOperation.ALL, AclPermissionType.ALLOW
        acls = [
            AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{USER}", "*", *each)
            for each in (allowed, (operation, AclPermissionType.DENY))
        ]
        any_of = AclOperation.ANY, AclPermissionType.ANY
        found = AclBindingFilter(kind, name, ResourcePatternType.LITERAL, None, None, *any_of)  # type: ignore[arg-type] # of any user

        def count() -> int:
            return len(self.admin.describe_acls(found).result(HANG_SECONDS))

        for added in self.admin.create_acls(acls).values():
            added.result(HANG_SECONDS)
        self.wait_for(lambda: count() == len(acls))
        yield
        for removed in self.admin.delete_acls([found]).values():
            removed.result(HANG_SECONDS)
        self.wait_for(lambda: not count())


_ACLS: Final = {
    Right.READ: (ResourceType.TOPIC, AclOperation.READ),
    Right.WRITE: (ResourceType.TOPIC, AclOperation.WRITE),
    Right.GROUP: (ResourceType.GROUP, AclOperation.ALL),
    Right.TRANSACT: (ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE),
}


@pytest.mark.proof
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_a_broker_answers_as_the_simulation(broker: EmbeddedBroker, script: Script) -> None:
    answers, expected = script(BrokerWorld(broker))
    assert answers == expected


@pytest.fixture(scope="module")
def cut_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Run a broker whose logs these scripts cut."""
    with mortal_broker(tmp_path_factory.mktemp("cut-broker")) as running:
        yield running


@pytest.mark.parametrize("script", LOSSES, ids=lambda script: script.__name__)
def test_a_broker_that_loses_records_answers_as_the_simulation(
    cut_broker: EmbeddedBroker, tmp_path: Path, script: Script
) -> None:
    answers, expected = script(BrokerWorld(cut_broker, tmp_path))
    assert answers == expected


@pytest.fixture(scope="module")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """Run a broker with ACLs."""
    directory = tmp_path_factory.mktemp("secured-broker")
    with SecuredBroker(directory / "data", Certificate.make(directory)) as running:
        yield running


@pytest.mark.parametrize("script", REFUSALS, ids=lambda script: script.__name__)
def test_a_broker_that_refuses_answers_as_the_simulation(
    secured_broker: SecuredBroker, script: Script
) -> None:
    answers, expected = script(SecuredWorld(secured_broker))
    assert answers == expected
