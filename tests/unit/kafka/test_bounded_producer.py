"""A call for which the client forgets its time-out."""

from threading import Event
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from dedupe_kafka.bounded_producer import BoundedProducer

CONFIG = {"bootstrap.servers": "127.0.0.1:1", "transactional.id": "bounded", "log_level": 0}


class Forgetful(Producer):
    """A client that waits until the test is over."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.over = Event()
        self.asked: tuple[object, ...] = ()
        self.polls = 0

    def poll(self, timeout: float = -1.0) -> int:
        assert timeout == 0
        self.polls += 1
        return 0

    def send_offsets_to_transaction(
        self,
        positions: list[TopicPartition],
        group_metadata: Any,  # noqa: ANN401 # the library's
        timeout: float = -1.0,
    ) -> None:
        self.asked = positions, group_metadata, timeout
        self.over.wait(60)


class Bounded(BoundedProducer, Forgetful):
    """The bound around that client."""


def test_a_call_that_forgets_its_time_out_is_given_up() -> None:
    producer = Bounded(CONFIG)
    with pytest.raises(KafkaException, match="no answer of the group coordinator") as raised:
        producer.send_offsets_to_transaction([], b"group", 0.1)
    producer.over.set()
    assert producer.polls, "nobody would hear why"
    error: KafkaError = raised.value.args[0]
    assert error.code() == KafkaError._TIMED_OUT  # noqa: SLF001 # a public name
    assert not error.txn_requires_abort()


def test_an_answer_in_time_is_the_answer() -> None:
    producer = Bounded(CONFIG)
    producer.over.set()
    offsets = [TopicPartition("raw", 0, 7)]
    producer.send_offsets_to_transaction(offsets, b"group", 60.0)
    assert producer.asked == (offsets, b"group", 60.0)


def test_the_clients_own_error_is_raised() -> None:
    with pytest.raises(TypeError, match="expected bytes"):
        BoundedProducer(CONFIG).send_offsets_to_transaction([], None, 60.0)
