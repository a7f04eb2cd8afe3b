"""Topics that a test makes, changes and leaves nothing of."""

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined] # public names
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.support.fixtures import HOLDS_ANYTHING
from tests.support.patience import HANG_SECONDS

_BROKER_SECONDS = 30.0


class Topics:
    """The topics of one broker; those of a year ago are kept in them too, unless a setting says otherwise."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        self._created: list[str] = []

    def create(self, name: str, partitions: int = 1, **configs: object) -> str:
        """Create a topic, with Kafka's settings by their names."""
        config = {key: str(value) for key, value in {**HOLDS_ANYTHING, **configs}.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        _wait(self._admin.create_topics([topic], operation_timeout=_BROKER_SECONDS).values())
        self._created.append(name)
        return name

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic more partitions."""
        _wait(self._admin.create_partitions([NewPartitions(name, partitions)]).values())

    def configure(self, name: str, **configs: object) -> None:
        """Change settings of a topic."""
        entries = [
            ConfigEntry(key, str(value), incremental_operation=AlterConfigOpType.SET)
            for key, value in configs.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        _wait(self._admin.incremental_alter_configs([resource]).values())

    def delete_all(self) -> None:
        """Delete those that were created here."""
        if self._created:
            _wait(
                self._admin.delete_topics(self._created, operation_timeout=_BROKER_SECONDS).values()
            )
            self._created.clear()


def _wait(answers: Iterable[Future[Any]]) -> None:
    for answer in answers:
        answer.result(HANG_SECONDS)
