"""Scripts about consumers, offsets of topics, and offsets of groups."""

import json
from contextlib import suppress
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined] # a public name

from tests.simulation.conformance.world import (
    EARLIEST,
    Answer,
    World,
    outcome,
    read,
    seen,
    send,
)

_END = "_PARTITION_EOF"
_NONE = -1001
_CHECKED = {"check.crcs": True}


def an_open_transaction_holds_back_the_last_stable_offset(
    world: World,
) -> tuple[list[Answer], list[Answer]]:
    """A reader of committed records ends at it, and so does the topic for one who asks."""
    topic, where = world.create("lso"), None
    plain, other = world.producer(), world.producer("other")
    send(plain, topic, b"0", b"1")
    other.begin_transaction()
    send(other, topic, b"2")
    send(plain, topic, b"3")
    reader, where = world.reader(topic), TopicPartition(topic, 0)
    answers: list[Answer] = [
        reader.get_watermark_offsets(where, cached=True),
        read(reader),
        reader.get_watermark_offsets(where, cached=True),
        reader.get_watermark_offsets(where, timeout=10),
        world.offset(topic),
        world.offset(topic, committed=False),
    ]
    other.commit_transaction(10)
    answers += [read(reader), reader.get_watermark_offsets(where, cached=True)]
    return answers, [
        (_NONE, _NONE),
        [(0, b"0"), (1, b"1"), (2, _END)],
        (0, 4),
        (0, 2),
        2,
        4,
        [(2, b"2"), (3, b"3"), (5, _END)],
        (0, 5),
    ]


def a_damaged_batch_is_an_error_at_its_first_offset(
    world: World,
) -> tuple[list[Answer], list[Answer]]:
    """Again and again, as it is fetched anew; what stands before it is delivered."""
    topic, producer = world.create("damaged"), world.producer(**{"linger.ms": 100})
    for values in ((b"0", b"1"), (b"2", b"damaged", b"4"), (b"5",)):
        send(producer, topic, *values)
    with world.flipped(topic, b"damaged"):
        readers = [world.reader(topic, each, **_CHECKED) for each in (0, 3, 5)]
        answers: list[Answer] = [read(each, 2) for each in readers]
        for each in readers:
            each.close()
    answers.append(read(world.reader(topic, 3, **_CHECKED)))
    damaged, rest = [(2, "_BAD_MSG")] * 2, [(5, b"5"), (6, _END)]
    return answers, [
        [(0, b"0"), (1, b"1"), *damaged],
        damaged,
        rest,
        [(3, b"damaged"), (4, b"4"), *rest],
    ]


def aborted_records_and_markers_take_offsets(world: World) -> tuple[list[Answer], list[Answer]]:
    """They are skipped silently; a reader of all records sees the aborted ones."""
    topic, producer = world.create("aborted"), world.producer("it")
    for number, value in enumerate((b"a", b"b", b"c")):
        producer.begin_transaction()
        send(producer, topic, value, value)
        end = producer.abort_transaction if number == 1 else producer.commit_transaction
        end(10)
    world.wait_for(lambda: world.offset(topic) == 9)
    everything = world.reader(topic, **{"isolation.level": "read_uncommitted"})
    answers = [read(world.reader(topic)), read(world.reader(topic, 3)), read(everything)]
    return answers, [
        [(0, b"a"), (1, b"a"), (6, b"c"), (7, b"c"), (9, _END)],
        [(6, b"c"), (7, b"c"), (9, _END)],
        [(0, b"a"), (1, b"a"), (3, b"b"), (4, b"b"), (6, b"c"), (7, b"c"), (9, _END)],
    ]


def an_end_is_shown_once_each_time_it_is_reached(
    world: World,
) -> tuple[list[Answer], list[Answer]]:
    """Also where only a marker was added."""
    topic, producer = world.create("end"), world.producer("it")
    reader = world.reader(topic)
    answers: list[Answer] = [read(reader), outcome(reader.poll, 1.0)]
    producer.begin_transaction()
    send(producer, topic, b"x")
    producer.abort_transaction(10)
    answers += [read(reader), outcome(reader.poll, 1.0)]
    reader.assign([TopicPartition(topic, 0, 2)])
    answers.append(read(reader))
    return answers, [[(0, _END)], None, [(2, _END)], None, [(2, _END)]]


def deleted_records_are_out_of_range(world: World) -> tuple[list[Answer], list[Answer]]:
    """Below the low watermark, and after the end. The consumer stops then."""
    topic, plain = world.create("deleted"), world.producer()
    send(plain, topic, *[b"%d" % n for n in range(6)])
    world.delete_records(topic, 4)
    answers: list[Answer] = [world.offset(topic, EARLIEST), world.offset(topic)]
    reader = world.consumer()
    for offset in (2, 4, 6, 7):
        reader.assign([TopicPartition(topic, 0, offset)])
        answers.append(read(reader))
    send(plain, topic, b"6", b"7")
    answers.append(outcome(reader.poll, 1.0))
    return answers, [
        4,
        6,
        [(2, "_AUTO_OFFSET_RESET")],
        [(4, b"4"), (5, b"5"), (6, _END)],
        [(6, _END)],
        [(7, "_AUTO_OFFSET_RESET")],
        None,
    ]


def offsets_are_found_by_timestamp(world: World) -> tuple[list[Answer], list[Answer]]:
    """The first record with that timestamp or a later one, if it is stable."""
    topic, plain, other = world.create("stamps"), world.producer(), world.producer("other")
    for timestamp in (1000, 5000, 3000):
        send(plain, topic, b"x", timestamp=timestamp)
    asked = [world.offset(topic, OffsetSpec.for_timestamp(at)) for at in (0, 1001, 3000, 5001)]
    other.begin_transaction()
    send(other, topic, b"x", timestamp=9000)
    at = OffsetSpec.for_timestamp(6000)
    asked += [world.offset(topic, at), world.offset(topic, at, committed=False)]
    world.delete_records(topic, 1)
    asked.append(world.offset(topic, OffsetSpec.for_timestamp(0)))
    other.abort_transaction(10)
    return asked, [0, 1, 1, -1, -1, 3, 1]


def a_marker_is_found_by_its_timestamp(world: World) -> tuple[list[Answer], list[Answer]]:
    """It has the time at which it was written, which is later than those of these records."""
    topic, plain, other = world.create("marks"), world.producer(), world.producer("one")
    other.begin_transaction()
    send(other, topic, b"x", timestamp=1000)
    other.commit_transaction(10)
    world.wait_for(lambda: world.offset(topic) == 2)
    send(plain, topic, b"y", timestamp=2000)
    asked = [world.offset(topic, OffsetSpec.for_timestamp(at)) for at in (1000, 1500, 3000)]
    return asked, [0, 1, 1]


def a_topic_that_is_created_again_is_another(
    world: World,
) -> tuple[list[Answer], list[Answer]]:
    """It has another UUID; a consumer that was at an offset of the old one learns that it is gone."""
    topic = world.create("again")
    first = world.topic_id(topic)
    send(world.producer(), topic, b"0", b"1", b"2")
    reader = world.reader(topic)
    answers: list[Answer] = [read(reader)]
    world.delete(topic)
    world.create(topic)
    answers += [world.topic_id(topic) == first, world.offset(topic), read(reader)]
    send(world.producer(), topic, *[b"new"] * 5)
    answers.append(outcome(reader.poll, 2.0))
    return answers, [
        [(0, b"0"), (1, b"1"), (2, b"2"), (3, _END)],
        False,
        0,
        [(3, "_AUTO_OFFSET_RESET")],
        None,
    ]


def watermarks_are_of_the_topic_that_was_read(
    world: World,
) -> tuple[list[Answer], list[Answer]]:
    """The consumer forgets them when its topic is deleted, and learns those of the new one only by a fetch.

    The new topic is empty, so the first fetch stops the consumer, and its watermarks stay unknown.
    """
    topic, statistics = world.create("marks"), list[str]()
    where = TopicPartition(topic, 0)
    send(world.producer(), topic, b"0", b"1", b"2")
    settings: dict[str, Any] = {"statistics.interval.ms": 100, "stats_cb": statistics.append}
    reader = world.reader(topic, **settings)

    def wait_until_shown(**expected: object) -> Answer:
        def shown() -> dict[str, object]:
            found = _shown(statistics, topic)
            return {name: found.get(name) for name in expected}

        def is_shown() -> bool:
            message = reader.poll(0.05)
            if message is not None:
                answers.append(seen(message))
            return shown() == expected

        with suppress(AssertionError):  # the answers tell what is shown instead
            world.wait_for(is_shown)
        return reader.get_watermark_offsets(where, cached=True), shown()

    known = {"lo_offset": 0, "hi_offset": 3, "ls_offset": 3}
    unknown = dict.fromkeys(known, -1)
    at_end = {"next_offset": 3, "eof_offset": 3, "fetch_state": "active"}
    # Threads of the library decide whether the position is 0 or unknown after that.
    stopped = {"fetch_state": "none"}
    answers: list[Answer] = [read(reader)]
    answers.append(wait_until_shown(**known, **at_end))
    world.delete(topic)
    answers += [
        wait_until_shown(**unknown, **at_end),
        outcome(lambda: reader.get_watermark_offsets(where, timeout=10)),
        outcome(world.offset, topic, EARLIEST),
    ]
    world.create(topic)
    answers += [
        reader.get_watermark_offsets(where, cached=True),
        world.offset(topic, EARLIEST),
        world.offset(topic),
        read(reader),
        wait_until_shown(**unknown, **stopped),
        reader.get_watermark_offsets(where, timeout=10),
    ]
    send(world.producer(), topic, b"new")
    answers += [
        reader.get_watermark_offsets(where, cached=True),
        reader.get_watermark_offsets(where, timeout=10),
    ]
    gone = (-1, -1)
    return answers, [
        [(0, b"0"), (1, b"1"), (2, b"2"), (3, _END)],
        ((0, 3), {**known, **at_end}),
        (gone, {**unknown, **at_end}),
        "_UNKNOWN_PARTITION",
        "UNKNOWN_TOPIC_OR_PART",
        gone,
        0,
        0,
        [(3, "_AUTO_OFFSET_RESET")],
        (gone, {**unknown, **stopped}),
        (0, 0),
        gone,
        (0, 1),
    ]


def what_was_fetched_before_a_topic_was_deleted_is_delivered(
    world: World,
) -> tuple[list[Answer], list[Answer]]:
    """Then nothing: the consumer does not say that its topic is gone."""
    topic = world.create("gone")
    send(world.producer(), topic, b"0", b"1", b"2")
    reader = world.reader(topic)
    first = [(each.offset(), each.value()) for each in reader.consume(2, 15)]
    world.delete(topic)
    message = reader.poll(5)
    rest = message and (message.offset(), message.value())
    reader.poll(1)  # the end, if it was reached before
    return [first, rest, outcome(reader.poll, 2.0)], [[(0, b"0"), (1, b"1")], (2, b"2"), None]


def partitions_are_added(world: World) -> tuple[list[Answer], list[Answer]]:
    """A consumer finds them; a producer that knows the topic does not, for minutes."""
    topic, old = world.create("grown"), world.producer()
    send(old, topic, b"0")
    reader = world.reader(topic)
    answers: list[Answer] = [read(reader)]
    world.add_partitions(topic, 3)
    answers.append(outcome(lambda: old.produce(topic, b"1", partition=2)))
    new = world.producer()
    new.produce(topic, b"1", partition=2)
    new.flush(15)
    reader.assign([TopicPartition(topic, 2, 0)])
    answers.append(read(reader))
    return answers, [[(0, b"0"), (1, _END)], "_UNKNOWN_PARTITION", [(0, b"1"), (1, _END)]]


def offsets_of_a_group_have_metadata(world: World) -> tuple[list[Answer], list[Answer]]:
    """Without any it is None."""
    topic, reader = world.create("group"), world.consumer()

    def committed() -> Answer:
        found = reader.committed([TopicPartition(topic, 0)], timeout=60)[0]
        return found.offset, found.metadata

    answers: list[Answer] = [committed()]
    for commit in (TopicPartition(topic, 0, 3, "text"), TopicPartition(topic, 0, 1)):
        reader.commit(offsets=[commit], asynchronous=False)
        answers.append(committed())
    producer = world.producer("it")
    producer.begin_transaction()
    offsets = [TopicPartition(topic, 0, 7, "of a transaction")]
    producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), 15)
    producer.commit_transaction(10)
    answers.append(committed())
    return answers, [(_NONE, None), (3, "text"), (1, None), (7, "of a transaction")]


def offsets_of_a_group_go_with_the_topic(world: World) -> tuple[list[Answer], list[Answer]]:
    """Deleting a topic deletes them, also if it is created again."""
    topic, reader = world.create("lost"), world.consumer()
    where = TopicPartition(topic, 0)
    reader.commit(offsets=[TopicPartition(topic, 0, 3, "text")], asynchronous=False)
    world.delete(topic)
    world.wait_for(lambda: reader.committed([where], timeout=60)[0].offset == _NONE)
    answers: list[Answer] = [
        outcome(lambda: reader.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)),
        outcome(world.offset, topic),
        outcome(world.topic_id, topic),
    ]
    world.create(topic)
    answers.append(reader.committed([where], timeout=60)[0].offset)
    return answers, [
        "UNKNOWN_TOPIC_OR_PART",
        "UNKNOWN_TOPIC_OR_PART",
        "UNKNOWN_TOPIC_OR_PART",
        _NONE,
    ]


def statistics_show_what_was_fetched(world: World) -> tuple[list[Answer], list[Answer]]:
    """The next offset to fetch is after aborted records that were never delivered."""
    topic, producer = world.create("statistics"), world.producer("it")
    send(world.producer(), topic, b"0")
    producer.begin_transaction()
    send(producer, topic, *[b"x"] * 20)
    producer.abort_transaction(10)
    world.wait_for(lambda: world.offset(topic) == 22)
    seen: list[str] = []
    settings: dict[str, Any] = {"statistics.interval.ms": 200, "stats_cb": seen.append}
    reader = world.reader(topic, **settings)
    delivered = reader.consume(1, 15)[0].offset()

    def fetched() -> bool:
        reader.poll(0.2)
        return bool(_shown(seen, topic).get("next_offset") == 22)

    world.wait_for(fetched)
    names = ("hi_offset", "ls_offset", "lo_offset", "fetch_state")
    shown = [_shown(seen, topic)[name] for name in names]
    return [delivered, *shown], [0, 22, 22, 0, "active"]


def _shown(seen: list[str], topic: str) -> dict[str, Any]:
    """Return what the last statistics say of partition 0."""
    topics = json.loads(seen[-1])["topics"] if seen else {}
    found: dict[str, Any] = topics.get(topic, {}).get("partitions", {}).get("0", {})
    return found
