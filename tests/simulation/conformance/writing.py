"""Scripts about producers without transactions."""

from confluent_kafka import KafkaError, Message, Producer, TopicPartition

from tests.simulation.conformance.world import (
    Answer,
    World,
    error_of,
    outcome,
    produce_before_its_topic_is_known,
    read,
    send,
)

_END = "_PARTITION_EOF"


class Reports:
    """The delivery reports of a producer: values with their offset, or the name of the error."""

    def __init__(self) -> None:
        self.seen: list[Answer] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        """Take a report."""
        value = (message.value() or b"")[:6]
        self.seen.append((value, message.offset() if error is None else error_of(error)))


def records_arrive_as_they_were_sent(world: World) -> tuple[list[Answer], list[Answer]]:
    """No header at all is None; None differs from nothing."""
    topic, plain, reports = world.create("raw"), world.producer(), Reports()
    plain.produce(topic, None, None, 0, reports, None, 5, [])
    plain.produce(topic, b"", b"", 0, None, None, 7, [("a", None), ("a", b"")])
    unsent = [len(plain), plain.flush(15), len(plain)]
    found = [
        (each.key(), each.value(), each.headers(), each.timestamp())
        for each in world.reader(topic).consume(2, 15)
    ]
    return [unsent, reports.seen, found], [
        [2, 0, 0],
        [(b"", 0)],
        [(None, None, None, (1, 5)), (b"", b"", [("a", None), ("a", b"")], (1, 7))],
    ]


def a_queue_is_bounded_and_purged(world: World) -> tuple[list[Answer], list[Answer]]:
    """What does not fit raises BufferError; what is purged is reported."""
    topic, reports = world.create("full"), Reports()
    plain = world.producer(
        **{"queue.buffering.max.messages": 2, "linger.ms": 5000, "on_delivery": reports}
    )

    def try_produce(value: bytes) -> str:
        try:
            plain.produce(topic, value, partition=0)
        except BufferError as error:
            return str(error)
        return "queued"

    answers: list[Answer] = [try_produce(b"%d" % n) for n in range(3)]
    plain.purge()
    plain.poll(1)
    answers += [reports.seen[:], len(plain), try_produce(b"3"), plain.flush(15), reports.seen[2:]]
    return answers, [
        "queued",
        "queued",
        "Local: Queue full",
        [(b"0", "_PURGE_QUEUE"), (b"1", "_PURGE_QUEUE")],
        0,
        "queued",
        0,
        [(b"3", 0)],
    ]


def a_record_is_too_large(world: World) -> tuple[list[Answer], list[Answer]]:
    """It alone is refused, if the records around it are in batches of their own."""
    topic, reports = world.create("large", **{"max.message.bytes": 2000}), Reports()
    plain = world.producer(**{"batch.size": 1000, "on_delivery": reports})
    plain.produce(topic, b"before", partition=0)
    plain.produce(topic, b"large!" * 500, partition=0)
    plain.produce(topic, b"after", partition=0)
    return [plain.flush(15), reports.seen], [
        0,
        [(b"before", 0), (b"large!", "MSG_SIZE_TOO_LARGE"), (b"after", 1)],
    ]


def a_timestamp_is_in_the_future(world: World) -> tuple[list[Answer], list[Answer]]:
    """The whole batch is refused."""
    topic, reports = world.create("future"), Reports()
    plain = world.producer(**{"linger.ms": 1000, "on_delivery": reports})
    plain.produce(topic, b"now", partition=0)
    plain.produce(topic, b"future", partition=0, timestamp=10**14)
    return [plain.flush(15), reports.seen], [
        0,
        [(b"now", "INVALID_TIMESTAMP"), (b"future", "INVALID_TIMESTAMP")],
    ]


def a_partition_is_missing(world: World) -> tuple[list[Answer], list[Answer]]:
    """The first record fails when it is sent, later ones at once; a consumer waits silently."""
    topic, reports = world.create("narrow"), Reports()
    plain = world.producer(on_delivery=reports)

    def produce() -> None:
        plain.produce(topic, b"x", partition=3)

    produce_before_its_topic_is_known(world, plain, topic, b"x", partition=3)
    answers: list[Answer] = [plain.flush(15), reports.seen, outcome(produce)]
    reader = world.consumer()
    reader.assign([TopicPartition(topic, 3, 0)])
    answers.append(outcome(reader.poll, 2.0))
    return answers, [0, [(b"x", "_UNKNOWN_PARTITION")], "_UNKNOWN_PARTITION", None]


def a_topic_is_created_again_under_its_producer(
    world: World,
) -> tuple[list[Answer], list[Answer]]:
    """It writes to the new one, and does not notice: also in a transaction that has begun before."""
    topic = world.create("again")
    plain, other = world.producer(), world.producer("other")
    other.begin_transaction()
    send(other, topic, b"lost")
    send(plain, topic, b"lost")
    world.delete(topic)
    world.create(topic)
    send(plain, topic, b"0")
    _send_late(other, topic, b"1")
    other.commit_transaction(15)
    world.wait_for(lambda: world.offset(topic) == 3)
    return [read(world.reader(topic))], [[(0, b"0"), (1, b"1"), (3, _END)]]


def _send_late(producer: Producer, topic: str, value: bytes) -> None:
    producer.produce(topic, value, partition=0)
    producer.flush(15)
