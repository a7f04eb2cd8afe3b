"""Scripts about requests that a broker refuses for want of a right, which comes back."""

from functools import partial

from confluent_kafka import TopicPartition

from tests.simulation.conformance.world import Answer, World, outcome, read, send
from tests.simulation.conformance.writing import Reports
from tests.simulation.kafka.rights import Right

_END = "_PARTITION_EOF"
_TOPIC = "TOPIC_AUTHORIZATION_FAILED"
_GROUP = "GROUP_AUTHORIZATION_FAILED"
_ID = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


def a_topic_may_not_be_read(world: World) -> tuple[list[Answer], list[Answer]]:
    """A reader gets an event, once, and reads on where it was once the right is back."""
    topic, producer = world.create("unread"), world.producer()
    send(producer, topic, b"0")
    reader, where = world.reader(topic), [TopicPartition(topic, 0, 1)]
    commit = partial(reader.commit, offsets=where, asynchronous=False)
    answers: list[Answer] = [read(reader)]
    commit()
    with world.refusing(Right.READ, topic):
        answers.append(read(reader))
        send(producer, topic, b"1")
        answers += [
            read(world.reader(topic)),
            outcome(world.offset, topic),
            outcome(commit),
        ]
    answers.append(read(reader))
    return answers, [
        [(0, b"0"), (1, _END)],
        [(1, _TOPIC)],
        [(0, _TOPIC)],
        2,
        _TOPIC,
        [(1, b"1"), (2, _END)],
    ]


def a_topic_may_not_be_written(world: World) -> tuple[list[Answer], list[Answer]]:
    """Neither without transactions, nor in one that has written to it; then it must be aborted."""
    topic, reports = world.create("unwritten"), Reports()
    plain = world.producer(on_delivery=reports)
    producer = world.producer("it", on_delivery=reports)
    producer.begin_transaction()
    send(producer, topic, b"0")
    with world.refusing(Right.WRITE, topic):
        plain.produce(topic, b"plain", partition=0)
        answers: list[Answer] = [plain.flush(15)]
        producer.produce(topic, b"1", partition=0)
        answers += [
            producer.flush(15),
            outcome(producer.commit_transaction, 15),
            outcome(producer.abort_transaction, 15),
        ]
    answers += [reports.seen, read(world.reader(topic))]
    return answers, [
        0,
        0,
        f"{_TOPIC} abort",
        None,
        [(b"0", 0), (b"plain", _TOPIC), (b"1", _TOPIC)],
        [(2, _END)],
    ]


def a_group_may_not_be_used(world: World) -> tuple[list[Answer], list[Answer]]:
    """Its offsets can be neither asked for nor committed, also not in a transaction."""
    topic, producer = world.create("ungrouped"), world.producer("it")
    consumer, where = world.consumer(), [TopicPartition(topic, 0, 1)]
    commit = partial(consumer.commit, offsets=where, asynchronous=False)
    commit()
    add = partial(
        producer.send_offsets_to_transaction, where, consumer.consumer_group_metadata(), 15
    )
    with world.refusing(Right.GROUP, f"{world.name}-group"):
        producer.begin_transaction()
        answers: list[Answer] = [
            outcome(consumer.committed, where, 15),
            outcome(commit),
            outcome(add),
            outcome(producer.commit_transaction, 15),
            outcome(producer.abort_transaction, 15),
        ]
    producer.begin_transaction()
    answers += [
        outcome(add),
        outcome(producer.commit_transaction, 15),
        [each.offset for each in consumer.committed(where, timeout=15)],
    ]
    return answers, [_GROUP, _GROUP, f"{_GROUP} abort", f"{_GROUP} abort", None, None, None, [1]]


def a_transactional_id_may_not_be_used(world: World) -> tuple[list[Answer], list[Answer]]:
    """Neither by a producer that begins, nor by one whose transaction has begun."""
    topic, new, old = world.create("untransacted"), world.producer("it"), world.producer("old")
    old.begin_transaction()
    send(old, topic, b"0")
    answers: list[Answer] = []
    with (
        world.refusing(Right.TRANSACT, f"{world.name}-it"),
        world.refusing(Right.TRANSACT, f"{world.name}-old"),
    ):
        answers.append(outcome(world.producer, "it"))
        for producer in (new, old):
            if producer is new:
                producer.begin_transaction()
            producer.produce(topic, b"1", partition=0)
            answers += [
                outcome(producer.flush, 15),
                outcome(producer.commit_transaction, 15),
                outcome(producer.abort_transaction, 15),
            ]
    answers.append(read(world.reader(topic)))
    return answers, [
        f"{_ID} fatal",
        f"{_ID} fatal",
        f"{_ID} fatal",
        f"{_ID} fatal",
        0,
        f"{_ID} abort",
        f"{_ID} fatal",
        [(0, _END)],
    ]
