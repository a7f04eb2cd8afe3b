"""What a peer writes to is asked for patiently, and removed with all that is named after it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from benchmarks.peers import output
from benchmarks.peers.output import OutputTopic


class Done:
    """A future that is done."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def result(self, _timeout: float) -> object:
        return SimpleNamespace(offset=self._offset)


class FakeAdmin:
    """Fails with `errors` first; then each partition ends at 10 times its number, and 1."""

    def __init__(self) -> None:
        self.errors: list[int] = []
        self.topics = {"clean-1", "quix-clean-1-changelog", "clean-2"}

    def list_offsets(
        self, where: dict[TopicPartition, object], **_: object
    ) -> dict[TopicPartition, Done]:
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        return {each: Done(10 * each.partition + 1) for each in where}

    def list_topics(self, **_: object) -> object:
        return SimpleNamespace(topics=dict.fromkeys(self.topics))

    def delete_topics(self, names: list[str]) -> dict[str, Done]:
        self.topics -= set(names)
        return {name: Done(0) for name in names}


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    admin = FakeAdmin()
    monkeypatch.setattr(output, "AdminClient", lambda _: admin)
    return admin


def clean_topic() -> OutputTopic:
    testbed = SimpleNamespace(bootstrap_servers="", create_topic=lambda *_, **__: "clean-1")
    return OutputTopic(cast(Any, testbed), "clean")


def test_offsets_are_those_of_all_partitions(admin: FakeAdmin) -> None:
    admin.errors = [KafkaError.NOT_LEADER_FOR_PARTITION]  # as of a topic that is very new

    assert clean_topic().written() == 1 + 11


def test_an_error_that_does_not_pass_is_raised(admin: FakeAdmin) -> None:
    admin.errors = [KafkaError.TOPIC_AUTHORIZATION_FAILED]

    with pytest.raises(KafkaException):
        clean_topic().committed()


def test_the_topics_that_a_peer_made_for_itself_go_with_its_output(admin: FakeAdmin) -> None:
    clean_topic().delete()

    assert admin.topics == {"clean-2"}
