"""Scripts about logs that lose their tail, and get other records in its place."""

from confluent_kafka import Consumer, Message, TopicPartition

from dedupe_kafka.fetch_errors import parting_of
from tests.simulation.conformance.grouping import SUBSCRIBED
from tests.simulation.conformance.world import Answer, World, read, seen, send

_END = "_PARTITION_EOF"
_LOST = "_AUTO_OFFSET_RESET"


def a_seek_with_an_epoch_finds_where_the_logs_part(
    world: World,
) -> tuple[list[Answer], list[Answer]]:
    """Also after the log has grown beyond the offset; without an epoch other records are read."""
    topic = world.create("cut")
    send(world.producer(), topic, b"0", b"1")
    with world.losing(topic) as lose:
        send(world.producer(), topic, b"2", b"3")
        records = _records(world.reader(topic), 4)
        first, last = _epoch(records[1]), _epoch(records[3])
        lose()
        shorter = _parting(_sought(world, topic, 4, last))
    send(world.producer(), topic, b"a", b"b", b"c")
    parting = _parting(_sought(world, topic, 4, last))
    answers: list[Answer] = [
        first < last,
        shorter == (2, first),
        parting == (2, first),
        read(_sought(world, topic, 2, first)),
        read(_sought(world, topic, 2, last)),
        read(_sought(world, topic, 1, first)),
        read(world.reader(topic, 4)),
    ]
    rest: list[Answer] = [(2, b"a"), (3, b"b"), (4, b"c"), (5, _END)]
    return answers, [True, True, True, rest, rest, [(1, b"1"), *rest], rest[2:]]


def a_reader_notices_a_loss_under_it(world: World) -> tuple[list[Answer], list[Answer]]:
    """It has read to the end; the loss has no offset."""
    topic = world.create("cut")
    send(world.producer(), topic, b"0")
    with world.losing(topic) as lose:
        send(world.producer(), topic, b"1")
        reader = world.reader(topic)
        answers: list[Answer] = [read(reader)]
        lose()
        send(world.producer(), topic, b"a", b"b")
        answers.append(read(reader))
    return answers, [[(0, b"0"), (1, b"1"), (2, _END)], [(None, _LOST)]]


def a_member_that_seeks_finds_where_the_logs_part(
    world: World,
) -> tuple[list[Answer], list[Answer]]:
    """As routers do: within the callback of a rebalance, and again where the logs part."""
    topic = world.create("cut")
    send(world.producer(), topic, b"0")
    with world.losing(topic) as lose:
        send(world.producer(), topic, b"1")
        records = _records(world.reader(topic), 2)
        lose()
    send(world.producer(), topic, b"a", b"b")

    def assign(consumer: Consumer, offset: int, epoch: int | None) -> None:
        consumer.incremental_assign([TopicPartition(topic, 0, offset)])
        consumer.resume([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0, offset, leader_epoch=epoch))

    member = world.consumer(**SUBSCRIBED)
    member.subscribe([topic], on_assign=lambda consumer, _: assign(consumer, 2, _epoch(records[1])))
    found: list[Message] = []

    def is_answered() -> bool:
        found.extend(member.consume(1, 1))
        return bool(found)

    world.wait_for(is_answered)
    error = found[0].error()
    answers: list[Answer] = [error and parting_of(error) == (1, _epoch(records[0]))]
    member.incremental_unassign([TopicPartition(topic, 0)])
    answers.append(member.poll(1))
    assign(member, 1, _epoch(records[0]))
    answers.append(read(member))
    member.close()
    return answers, [True, None, [(1, b"a"), (2, b"b"), (3, _END)]]


def markers_of_a_later_epoch_part_from_the_last_record(
    world: World,
) -> tuple[list[Answer], list[Answer]]:
    """Nothing is lost, but the offset after the marker is not of the epoch of the last record."""
    topic, other = world.create("cut"), world.producer("other")
    with world.losing(topic):
        other.begin_transaction()
        send(other, topic, b"0")
        with world.losing(topic):
            other.commit_transaction(30)
    (record,) = _records(world.reader(topic), 1)
    answers: list[Answer] = [
        read(world.reader(topic)),
        _parting(_sought(world, topic, 2, _epoch(record))) == (1, _epoch(record)),
        read(_sought(world, topic, 1, _epoch(record))),
    ]
    return answers, [[(0, b"0"), (2, _END)], True, [(2, _END)]]


def an_epoch_is_committed_with_an_offset(world: World) -> tuple[list[Answer], list[Answer]]:
    """With and without a transaction; an offset without one has none."""
    topic, producer, reader = world.create("epoch"), world.producer("it"), world.consumer()
    where, answers = TopicPartition(topic, 0), []

    def committed() -> Answer:
        (found,) = reader.committed([where], timeout=15)
        return found.offset, found.metadata, found.leader_epoch

    reader.commit(offsets=[TopicPartition(topic, 0, 4, "text", 7)], asynchronous=False)
    answers.append(committed())
    producer.begin_transaction()
    offsets = [TopicPartition(topic, 0, 5, "text", 8)]
    producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), 15)
    producer.commit_transaction(15)
    answers.append(committed())
    reader.commit(offsets=[TopicPartition(topic, 0, 6, "text")], asynchronous=False)
    answers.append(committed())
    return answers, [(4, "text", 7), (5, "text", 8), (6, "text", None)]


def _sought(world: World, topic: str, offset: int, epoch: int) -> Consumer:
    reader = world.reader(topic, offset)
    reader.seek(TopicPartition(topic, 0, offset, leader_epoch=epoch))
    return reader


def _records(reader: Consumer, count: int) -> list[Message]:
    found = reader.consume(count, 15)
    assert len(found) == count, [seen(each) for each in found]
    return found


def _epoch(record: Message) -> int:
    epoch = record.leader_epoch()
    assert epoch is not None
    return epoch


def _parting(reader: Consumer) -> Answer:
    """Return where the partition parts from what was read, or what is delivered instead."""
    message = reader.poll(15)
    error = message.error() if message is not None else None
    return parting_of(error) if error is not None else message and seen(message)
