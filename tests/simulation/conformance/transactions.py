"""Scripts about transactions: fencing, time-outs, offsets, and answers that are late."""

from confluent_kafka import Consumer, TopicPartition

from tests.simulation.conformance.world import (
    Answer,
    World,
    either,
    outcome,
    produce_before_its_topic_is_known,
    read,
    send,
)
from tests.simulation.conformance.writing import Reports

_END = "_PARTITION_EOF"
_FENCED = "_FENCED fatal"
_TIMED_OUT = "_TIMED_OUT retriable"
_CONFLICT = "_CONFLICT retriable"
_NOT_DELIVERED = "_INCONSISTENT abort"
_NONE = -1001


def the_state_allows_a_call(world: World) -> tuple[list[Answer], list[Answer]]:
    """Delivery reports of what a commit sends are served by it."""
    topic, producer, reports = world.create("states"), world.producer("it"), Reports()

    def produce() -> None:
        producer.produce(topic, b"x", partition=0, on_delivery=reports)

    answers: list[Answer] = [
        outcome(producer.init_transactions, 5),
        outcome(produce),
        outcome(producer.commit_transaction, 5),
        outcome(producer.abort_transaction, 5),
        outcome(producer.begin_transaction),
        outcome(producer.begin_transaction),
        outcome(produce),
        outcome(producer.commit_transaction, 15),
        outcome(producer.commit_transaction, 5),
    ]
    producer.begin_transaction()
    produce()
    answers += [outcome(producer.abort_transaction, 15), len(producer), reports.seen]
    return answers, [
        "_STATE",
        "_STATE",
        "_STATE",
        "_STATE",
        None,
        "_STATE",
        None,
        None,
        "_STATE",
        None,
        0,
        [(b"x", 0), (b"x", "_PURGE_QUEUE")],
    ]


def a_newer_producer_fences_one_with_records(world: World) -> tuple[list[Answer], list[Answer]]:
    """Its transaction is aborted; `poll` raises that once, `produce` names it a fatal error only."""
    topic, old = world.create("fenced"), world.producer("it")
    old.begin_transaction()
    send(old, topic, b"old")
    world.producer("it")
    world.wait_for(lambda: world.offset(topic) == 2)

    def produce() -> None:
        old.produce(topic, b"late", partition=0)

    answers: list[Answer] = [
        outcome(produce),
        outcome(old.poll, 5),
        outcome(produce),
        outcome(old.commit_transaction, 5),
        outcome(old.abort_transaction, 5),
        outcome(old.begin_transaction),
        outcome(old.init_transactions, 5),
        read(world.reader(topic)),
    ]
    return answers, [
        None,
        _FENCED,
        "_FATAL",
        _FENCED,
        _FENCED,
        _FENCED,
        _FENCED,
        [(2, _END)],
    ]


def a_newer_producer_fences_one_with_offsets(world: World) -> tuple[list[Answer], list[Answer]]:
    """A producer learns of it by its first request, not before."""
    topic, old = world.create("fenced"), world.producer("it")
    world.producer("it")
    answers: list[Answer] = [outcome(old.begin_transaction)]
    metadata = world.consumer().consumer_group_metadata()
    offsets = [TopicPartition(topic, 0, 1)]
    answers += [
        outcome(old.send_offsets_to_transaction, offsets, metadata, 5),
        outcome(old.commit_transaction, 5),
        outcome(old.abort_transaction, 5),
    ]
    return answers, [None, _FENCED, _FENCED, _FENCED]


def a_fenced_producer_raises_once_at_a_flush(world: World) -> tuple[list[Answer], list[Answer]]:
    """Without delivery reports, that is: the library calls those with the error pending, which breaks Python."""
    topic, old = world.create("flushed"), world.producer("it")
    old.begin_transaction()
    send(old, topic, b"1")
    world.producer("it")
    old.produce(topic, b"2", partition=0)
    answers: list[Answer] = [outcome(old.flush, 15), outcome(old.flush, 15)]
    answers.append(outcome(old.abort_transaction, 5))
    return answers, [_FENCED, 0, _FENCED]


def an_empty_transaction_takes_no_request(world: World) -> tuple[list[Answer], list[Answer]]:
    """So a producer that is fenced does not learn of it, and nothing is written."""
    topic, old = world.create("empty"), world.producer("it")
    old.begin_transaction()
    world.producer("it")
    answers: list[Answer] = [outcome(old.commit_transaction, 5), outcome(old.begin_transaction)]
    answers += [outcome(old.abort_transaction, 5), world.offset(topic)]
    return answers, [None, None, None, 0]


def a_transaction_outlives_its_time_out(world: World) -> tuple[list[Answer], list[Answer]]:
    """Its producer is told that it is fenced. A successor begins as ever."""
    topic = world.create("expired")
    old = world.producer("it", **{"transaction.timeout.ms": 1000})
    old.begin_transaction()
    send(old, topic, b"old")
    world.wait_for(lambda: world.offset(topic) == 2)
    answers: list[Answer] = [
        outcome(old.commit_transaction, 5),
        outcome(old.abort_transaction, 5),
        outcome(old.begin_transaction),
    ]
    new = world.producer("it")
    new.begin_transaction()
    send(new, topic, b"new")
    new.commit_transaction(15)
    answers.append(read(world.reader(topic)))
    return answers, [_FENCED, _FENCED, _FENCED, [(2, b"new"), (4, _END)]]


def an_offset_in_an_open_transaction_is_unstable(
    world: World,
) -> tuple[list[Answer], list[Answer]]:
    """Reading it waits, in vain until the transaction ends. A newer producer ends it.

    A consumer that is read_uncommitted does not wait, and gets the one before.
    """
    topic, reader, old = world.create("unstable"), world.consumer(), world.producer("it")
    impatient = world.consumer(**{"isolation.level": "read_uncommitted"})
    reader.commit(offsets=[TopicPartition(topic, 0, 1, "before")], asynchronous=False)
    old.begin_transaction()
    offsets = [TopicPartition(topic, 0, 5, "in it")]
    old.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), 15)

    def committed(consumer: Consumer, seconds: float) -> Answer:
        found = consumer.committed([TopicPartition(topic, 0)], timeout=seconds)[0]
        return found.offset, found.metadata

    answers: list[Answer] = [outcome(committed, impatient, 15), outcome(committed, reader, 2)]
    world.producer("it")
    answers.append(outcome(committed, reader, 15))
    return answers, [(1, "before"), "_TIMED_OUT", (1, "before")]


def the_later_offset_counts(world: World) -> tuple[list[Answer], list[Answer]]:
    """Not that of the transaction which ends later."""
    topic, reader, producer = world.create("later"), world.consumer(), world.producer("it")
    producer.begin_transaction()
    offsets = [TopicPartition(topic, 0, 5)]
    producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), 15)
    reader.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    producer.commit_transaction(15)
    return [reader.committed([TopicPartition(topic, 0)], timeout=60)[0].offset], [2]


def a_record_that_is_refused_must_be_aborted(world: World) -> tuple[list[Answer], list[Answer]]:
    """What follows it in the partition is not sent."""
    topic, reports = world.create("refused", **{"max.message.bytes": 2000}), Reports()
    producer = world.producer("it", **{"batch.size": 1000, "on_delivery": reports})
    producer.begin_transaction()
    for value in (b"before", b"large!" * 500, b"after"):
        producer.produce(topic, value, partition=0)
    # Whether what follows is still in the queue, or purged already, is up to the library's threads.
    answers: list[Answer] = [
        either(producer.flush(2), 1, 0),
        outcome(producer.commit_transaction, 5),
        outcome(producer.commit_transaction, 5),
        outcome(producer.abort_transaction, 15),
        reports.seen,
    ]
    producer.begin_transaction()
    producer.produce(topic, b"next", partition=0)
    answers.append(outcome(producer.commit_transaction, 15))
    answers.append(read(world.reader(topic)))
    return answers, [
        1,
        "MSG_SIZE_TOO_LARGE abort",
        "MSG_SIZE_TOO_LARGE abort",
        None,
        [
            (b"before", 0),
            (b"large!", "MSG_SIZE_TOO_LARGE"),
            (b"after", "_PURGE_QUEUE"),
            (b"next", 2),
        ],
        None,
        [(2, b"next"), (4, _END)],
    ]


def a_commit_whose_answer_is_late(world: World) -> tuple[list[Answer], list[Answer]]:
    """Repeating the call resumes it; every other call conflicts with it until then."""
    topic, producer = world.create("late"), world.producer("it")
    producer.begin_transaction()
    send(producer, topic, b"0")

    def produce() -> None:
        producer.produce(topic, b"1", partition=0)

    with world.frozen():
        answers: list[Answer] = [
            outcome(producer.commit_transaction, 1),
            outcome(producer.commit_transaction, 1),
            outcome(producer.abort_transaction, 1),
            outcome(producer.begin_transaction),
            outcome(produce),
        ]
    answers += [
        outcome(producer.commit_transaction, 30),
        outcome(producer.begin_transaction),
        read(world.reader(topic)),
    ]
    return answers, [
        _TIMED_OUT,
        _TIMED_OUT,
        _CONFLICT,
        _CONFLICT,
        "_STATE",
        None,
        None,
        [(0, b"0"), (2, _END)],
    ]


def an_abort_whose_answer_is_late(world: World) -> tuple[list[Answer], list[Answer]]:
    """As a commit."""
    topic, producer = world.create("late"), world.producer("it")
    producer.begin_transaction()
    send(producer, topic, b"0")
    with world.frozen():
        answers: list[Answer] = [
            outcome(producer.abort_transaction, 1),
            outcome(producer.commit_transaction, 1),
        ]
    answers += [
        outcome(producer.abort_transaction, 30),
        outcome(producer.begin_transaction),
        read(world.reader(topic)),
    ]
    return answers, [_TIMED_OUT, _CONFLICT, None, None, [(2, _END)]]


def a_commit_is_known_though_a_newer_producer_came(
    world: World,
) -> tuple[list[Answer], list[Answer]]:
    """The cluster commits while nobody asks. The next call of the old producer says so, a later one not."""
    topic, old = world.create("known"), world.producer("it")
    old.begin_transaction()
    send(old, topic, b"0")
    with world.frozen():
        answers: list[Answer] = [outcome(old.commit_transaction, 0.5)]
    world.wait_for(lambda: world.offset(topic) == 2)
    world.producer("it")
    answers += [outcome(old.commit_transaction, 15), outcome(old.begin_transaction)]
    old.produce(topic, b"1", partition=0)
    answers += [outcome(old.commit_transaction, 15), read(world.reader(topic))]
    return answers, [_TIMED_OUT, None, None, _FENCED, [(0, b"0"), (2, _END)]]


def a_topic_is_deleted_under_a_transaction(world: World) -> tuple[list[Answer], list[Answer]]:
    """A commit succeeds, if nothing was sent since: the records are lost, and the offsets count."""
    topic, read_from, reader = world.create("output"), world.create("input"), world.consumer()
    producer, reports = world.producer("it"), Reports()
    producer.begin_transaction()
    producer.produce(topic, b"lost", partition=0, on_delivery=reports)
    answers: list[Answer] = [producer.flush(15)]
    world.delete(topic)
    offsets = [TopicPartition(read_from, 0, 5)]
    metadata = reader.consumer_group_metadata()
    answers += [
        outcome(producer.send_offsets_to_transaction, offsets, metadata, 15),
        outcome(producer.commit_transaction, 15),
        reports.seen,
        reader.committed([TopicPartition(read_from, 0)], timeout=60)[0].offset,
    ]
    world.create(topic)
    producer.begin_transaction()
    send(producer, topic, b"new")
    answers += [outcome(producer.commit_transaction, 15), read(world.reader(topic))]
    return answers, [0, None, None, [(b"lost", 0)], 5, None, [(0, b"new"), (2, _END)]]


def a_record_to_a_deleted_topic_must_be_aborted(
    world: World,
) -> tuple[list[Answer], list[Answer]]:
    """It waits for the topic for half a minute or longer; then the commit says only that it was not delivered."""
    topic, read_from, reader = world.create("output"), world.create("input"), world.consumer()
    reports = Reports()
    # At the moment at which the library takes the topic for deleted, it loses a record that it is sending: neither the
    # commit nor an abort ends then. So it seldom sends the record again.
    seldom = {"retry.backoff.ms": 5000, "retry.backoff.max.ms": 5000}
    settings = {"transaction.timeout.ms": 300_000, "on_delivery": reports, **seldom}
    producer = world.producer("it", **settings)
    producer.begin_transaction()
    send(producer, topic, b"before")
    world.delete(topic)

    def produce() -> None:
        producer.produce(topic, b"after", partition=0)

    offsets = [TopicPartition(read_from, 0, 5)]
    metadata = reader.consumer_group_metadata()
    answers: list[Answer] = [
        outcome(produce),
        producer.flush(2),
        outcome(producer.send_offsets_to_transaction, offsets, metadata, 15),
        outcome(producer.commit_transaction, 1),
        outcome(producer.commit_transaction, 200),
        reports.seen[:],
        outcome(produce),
        outcome(producer.abort_transaction, 15),
        reader.committed([TopicPartition(read_from, 0)], timeout=60)[0].offset,
    ]
    world.create(topic)

    def passes() -> bool:
        """Send a record in a transaction; the library may not know the new topic yet, or take it for the old one."""
        producer.begin_transaction()
        if outcome(produce) is None and outcome(producer.commit_transaction, 15) is None:
            return True
        producer.abort_transaction(15)
        return False

    world.wait_for(passes)
    answers.append([value for _, value in read(world.reader(topic))])
    return answers, [
        None,
        1,
        None,
        _TIMED_OUT,
        _NOT_DELIVERED,
        [(b"before", 0), (b"after", "_UNKNOWN_PARTITION")],
        "_STATE",
        None,
        _NONE,
        [b"after", _END],
    ]


def a_transaction_cannot_begin_with_a_deleted_topic(
    world: World,
) -> tuple[list[Answer], list[Answer]]:
    """The library tries to add the partition until the record times out, and cannot abort."""
    topic, reports = world.create("output"), Reports()
    settings = {"transaction.timeout.ms": 5000, "on_delivery": reports}
    producer = world.producer("it", **settings)
    producer.begin_transaction()
    send(producer, topic, b"before")
    producer.commit_transaction(15)
    world.delete(topic)
    producer.begin_transaction()
    producer.produce(topic, b"after", partition=0)

    def produce() -> None:
        producer.produce(topic, b"later", partition=0)

    answers: list[Answer] = [
        producer.flush(1),
        either(outcome(producer.commit_transaction, 30), "_TIMED_OUT abort", "_INCONSISTENT abort"),
        reports.seen,
        outcome(produce),
        outcome(producer.abort_transaction, 15),
        outcome(producer.begin_transaction),
        outcome(produce),
        outcome(world.producer("it").begin_transaction),
    ]
    return answers, [
        1,
        "_TIMED_OUT abort",
        [(b"before", 0), (b"after", "_MSG_TIMED_OUT")],
        "_STATE",
        "INVALID_TXN_STATE fatal",
        "INVALID_TXN_STATE fatal",
        "_FATAL",
        None,
    ]


def a_record_without_a_partition_must_be_aborted(
    world: World,
) -> tuple[list[Answer], list[Answer]]:
    """Only the commit says so: what follows the record is sent. So it is for one that is purged."""
    topic, reports = world.create("narrow"), Reports()
    producer = world.producer("it", **{"on_delivery": reports, "linger.ms": 1000})
    producer.begin_transaction()
    produce_before_its_topic_is_known(world, producer, topic, b"beside", partition=3)
    answers: list[Answer] = [producer.flush(15)]
    producer.produce(topic, b"after", partition=0)
    answers += [
        producer.flush(15),
        outcome(producer.commit_transaction, 15),
        outcome(producer.abort_transaction, 15),
    ]
    producer.begin_transaction()
    producer.produce(topic, b"purged", partition=0)
    producer.purge()
    producer.poll(1)
    answers += [
        outcome(producer.commit_transaction, 15),
        outcome(producer.abort_transaction, 15),
        reports.seen,
        # If a thread of the library was faster than the purge, the partition is in the second transaction, which ends
        # with a marker.
        either(read(world.reader(topic)), [(2, _END)], [(3, _END)]),
    ]
    return answers, [
        0,
        0,
        _NOT_DELIVERED,
        None,
        _NOT_DELIVERED,
        None,
        [(b"beside", "_UNKNOWN_PARTITION"), (b"after", 0), (b"purged", "_PURGE_QUEUE")],
        [(2, _END)],
    ]
