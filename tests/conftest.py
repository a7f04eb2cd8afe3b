"""Fixtures of all tests, a broker and topics, the profiles of Hypothesis, and the layers of the tests."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # public names
    AdminClient,
    NewTopic,
    OffsetSpec,
)
from hypothesis import HealthCheck, settings

from dedupe_local.servers.kafka import EmbeddedBroker
from tests.support.layers import Layers, add_option
from tests.support.patience import HANG_SECONDS, wait_for
from tests.support.processes.brokers import lasting_broker
from tests.support.run_limit import end_in_time

# Every run tries the same examples, so that a failure comes from a change; `pytest --hypothesis-profile=explore` tries
# others. There is no time limit for an example, as that depends on the machine.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", _UNTIMED, derandomize=True)
settings.register_profile("explore", _UNTIMED, max_examples=5_000)
settings.load_profile("repeatable")

CreateTopic = Callable[..., str]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run be a fifth of the tests."""
    add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Know which command runs which test, and end a run that hangs."""
    config.pluginmanager.register(Layers(config))
    end_in_time(config)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Run one broker for the session; a test that kills brokers starts its own."""
    with lasting_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def is_led(admin: AdminClient, topic: str) -> bool:
    """Return whether the broker leads all partitions.

    It knows of its leaderships before it takes them over: meanwhile it answers that it is not the leader.
    """
    found = admin.list_topics(topic, timeout=HANG_SECONDS).topics[topic]
    if found.error or any(partition.leader < 0 for partition in found.partitions.values()):
        return False
    ends = {TopicPartition(topic, each): OffsetSpec.latest() for each in found.partitions}  # type: ignore[no-untyped-call] # the library's, untyped
    asked = admin.list_offsets(ends, request_timeout=HANG_SECONDS).values()
    return all(each.exception(HANG_SECONDS) is None for each in asked)


@pytest.fixture
def topics(broker: EmbeddedBroker) -> Iterator[CreateTopic]:
    """Create topics: `topics("raw", partitions=4, **{"max.message.bytes": 1048588})`.

    The name returned starts with the hint and is unique; the topic is deleted after the test.
    """
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    created = []

    def create(name_hint: str, partitions: int = 1, **configs: object) -> str:
        name = f"{name_hint}-{uuid4().hex[:8]}"
        config = {key: str(value) for key, value in configs.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        admin.create_topics([topic], operation_timeout=HANG_SECONDS)[name].result(
            timeout=HANG_SECONDS
        )
        created.append(name)
        wait_for(lambda: is_led(admin, name), f"the broker knows {name}")
        return name

    yield create
    if created:
        for deleted in admin.delete_topics(created, operation_timeout=HANG_SECONDS).values():
            deleted.result(timeout=HANG_SECONDS)
