"""Scripts about consumer groups: rebalances, and commits that are fenced by a membership."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

from confluent_kafka import Consumer, TopicPartition

from tests.simulation.conformance.world import Answer, World, outcome, read, send

_END = "_PARTITION_EOF"
SUBSCRIBED: dict[str, Any] = {
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 500,
    "topic.metadata.refresh.interval.ms": 1000,
}


class _Subscribed:
    """A member; a context manager, because the library may hang in the end of one that is not closed.

    `events` has the callbacks with the number of partitions, `has` the partitions that it has.
    """

    def __init__(self, world: World, topic: str) -> None:
        self.consumer = world.consumer(**SUBSCRIBED)
        self.events: list[tuple[str, int]] = []
        self.has: set[int] = set()
        self.left = False

        def assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            self.events.append(("assign", len(partitions)))
            self.has |= {each.partition for each in partitions}
            consumer.incremental_assign(
                [TopicPartition(each.topic, each.partition, 0) for each in partitions]
            )

        def give_up(name: str) -> Callable[[Consumer, list[TopicPartition]], None]:
            def call(consumer: Consumer, partitions: list[TopicPartition]) -> None:
                self.events.append((name, len(partitions)))
                self.has -= {each.partition for each in partitions}
                consumer.incremental_unassign(partitions)

            return call

        self.consumer.subscribe(
            [topic], on_assign=assign, on_revoke=give_up("revoke"), on_lost=give_up("lost")
        )

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the group."""
        self.leave()

    def leave(self) -> None:
        """Leave the group, once."""
        if not self.left:
            self.left = True
            self.consumer.close()


def _wait(world: World, condition: Callable[[], bool], *members: _Subscribed) -> None:
    """Serve the members until something is so."""

    def is_so() -> bool:
        for each in members:
            each.consumer.poll(0)
        return condition()

    world.wait_for(is_so)


def _commit(world: World, topic: str, metadata: bytes, name: str) -> Answer:
    """Commit an offset with this membership; return how that and the end of the transaction went."""
    producer = world.producer(name)
    producer.begin_transaction()
    offsets = [TopicPartition(topic, 0, 5)]
    answer = outcome(producer.send_offsets_to_transaction, offsets, metadata, 15)
    end = producer.commit_transaction if answer is None else producer.abort_transaction
    return answer, outcome(end, 15)


def members_share_the_partitions(world: World) -> tuple[list[Answer], list[Answer]]:
    """Give up first what changes hands, and give it away by a second rebalance. A member that leaves gives all."""
    with ExitStack() as stack:
        topic = world.create("shared", 4)
        first = stack.enter_context(_Subscribed(world, topic))
        _wait(world, lambda: len(first.has) == 4, first)
        second = stack.enter_context(_Subscribed(world, topic))
        _wait(world, lambda: len(first.has) == len(second.has) == 2, first, second)
        answers: list[Answer] = [sorted(first.has | second.has)]
        _wait(world, lambda: len(first.events) == 4, first, second)
        answers += [first.events[:], second.events[:]]
        first.leave()
        _wait(world, lambda: len(second.has) == 4, second)
        answers += [first.events[-1], second.events[-1]]
    return answers, [
        [0, 1, 2, 3],
        [("assign", 4), ("revoke", 2), ("assign", 0), ("assign", 0)],
        [("assign", 0), ("assign", 2)],
        ("revoke", 2),
        ("assign", 2),
    ]


def commits_are_fenced_by_the_membership(world: World) -> tuple[list[Answer], list[Answer]]:
    """By the generation, and by the member id. Without any, a commit in a transaction is taken from anybody."""
    with ExitStack() as stack:
        topic = world.create("fenced", 2)
        first = stack.enter_context(_Subscribed(world, topic))
        _wait(world, lambda: len(first.has) == 2, first)
        before = first.consumer.consumer_group_metadata()
        answers: list[Answer] = [_commit(world, topic, before, "present")]
        second = stack.enter_context(_Subscribed(world, topic))
        _wait(world, lambda: len(first.has) == len(second.has) == 1, first, second)
        answers.append(_commit(world, topic, before, "of then"))
        now = first.consumer.consumer_group_metadata()
        answers.append(_commit(world, topic, now, "of now"))
        first.leave()
        answers.append(_commit(world, topic, now, "gone"))
        nobody = world.consumer()
        answers += [
            nobody.memberid() or "",
            _commit(world, topic, nobody.consumer_group_metadata(), "nobody"),
            outcome(
                lambda: nobody.commit(offsets=[TopicPartition(topic, 0, 9)], asynchronous=False)
            ),
            nobody.committed([TopicPartition(topic, 0)], timeout=60)[0].offset,
        ]
    return answers, [
        (None, None),
        ("ILLEGAL_GENERATION abort", None),
        (None, None),
        ("UNKNOWN_MEMBER_ID abort", None),
        "",
        (None, None),
        "UNKNOWN_MEMBER_ID",
        5,
    ]


def a_member_that_hears_nothing_has_lost_its_partitions(
    world: World,
) -> tuple[list[Answer], list[Answer]]:
    """It has no member id then, and keeps its generation, so that a commit is refused."""
    with ExitStack() as stack:
        topic = world.create("lost", 2)
        member = stack.enter_context(_Subscribed(world, topic))
        _wait(world, lambda: len(member.has) == 2, member)
        before = member.consumer.consumer_group_metadata()
        answers: list[Answer] = [bool(member.consumer.memberid())]
        with world.frozen():
            _wait(world, lambda: not member.has, member)
            answers += [member.events[:], member.consumer.memberid() or ""]
            lost = member.consumer.consumer_group_metadata()
        _wait(world, lambda: len(member.has) == 2, member)
        answers += [_commit(world, topic, before, "before"), _commit(world, topic, lost, "lost")]
    return answers, [
        True,
        [("assign", 2), ("lost", 2)],
        "",
        ("UNKNOWN_MEMBER_ID abort", None),
        ("UNKNOWN_MEMBER_ID abort", None),
    ]


def added_partitions_are_given_to_members(world: World) -> tuple[list[Answer], list[Answer]]:
    """Once a member asks for the metadata of its topics again."""
    with ExitStack() as stack:
        topic = world.create("grown", 1)
        member = stack.enter_context(_Subscribed(world, topic))
        _wait(world, lambda: len(member.has) == 1, member)
        world.add_partitions(topic, 3)
        _wait(world, lambda: len(member.has) == 3, member)
        answers: list[Answer] = member.events[:]
    return answers, [("assign", 1), ("assign", 2)]


def a_paused_partition_continues_where_it_was(world: World) -> tuple[list[Answer], list[Answer]]:
    """Fetch again what was fetched and not delivered."""
    with ExitStack() as stack:
        topic = world.create("paused", 1)
        send(world.producer(), topic, b"0", b"1", b"2", b"3")
        member = stack.enter_context(_Subscribed(world, topic))
        _wait(world, lambda: bool(member.has), member)
        consumer, where = member.consumer, [TopicPartition(topic, 0)]
        consumer.incremental_unassign(where)
        consumer.incremental_assign([TopicPartition(topic, 0, 0)])
        answers: list[Answer] = [[each.offset() for each in consumer.consume(2, 15)]]
        consumer.pause(where)
        answers.append(outcome(consumer.poll, 1.0))
        consumer.resume(where)
        answers.append(read(consumer))
    return answers, [[0, 1], None, [(2, b"2"), (3, b"3"), (4, _END)]]
