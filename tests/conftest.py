"""Fixtures of all tests, a broker and topics, the profiles of Hypothesis, and the report of what did not run."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined] # NewTopic is public
    AdminClient,
    NewTopic,
)
from hypothesis import HealthCheck, settings

from dedupe_local.servers.kafka import EmbeddedBroker
from tests.support.layers import Layers
from tests.support.patience import wait_for

# Every run tries the same examples, so that a failure comes from a change; `pytest --hypothesis-profile=explore` tries
# others. There is no time limit for an example, as that depends on the machine.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", _UNTIMED, derandomize=True)
settings.register_profile("explore", _UNTIMED, max_examples=5_000)
settings.load_profile("repeatable")

CreateTopic = Callable[..., str]


def pytest_configure(config: pytest.Config) -> None:
    """Report at the end what was left to the matrix, and what had a second attempt."""
    config.pluginmanager.register(Layers(config))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """Run one broker for the session; a test that kills brokers starts its own."""
    # No test kills it, so its session may be long: on a machine that is busy with tests it may hang longer than a
    # short session.
    directory = tmp_path_factory.mktemp("broker")
    with EmbeddedBroker(directory, heap="512m", session_seconds=60) as running:
        yield running


def is_led(admin: AdminClient, topic: str) -> bool:
    """Return whether the broker, not only the controller, knows all leaders."""
    found = admin.list_topics(topic, timeout=30).topics[topic]
    return found.error is None and all(
        partition.leader >= 0 for partition in found.partitions.values()
    )


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
        admin.create_topics([topic], operation_timeout=30)[name].result(timeout=30)
        created.append(name)
        wait_for(lambda: is_led(admin, name), f"the broker knows {name}")
        return name

    yield create
    if created:
        for deleted in admin.delete_topics(created, operation_timeout=30).values():
            deleted.result(timeout=30)
