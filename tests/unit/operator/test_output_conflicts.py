from typing import Any

from dedupe_operator.controller.work_queue import Key
from dedupe_operator.output_conflicts import OutputConflicts

ORDERS, COPIES = Key("shop", "orders"), Key("shop", "copies")


def stream(created: str, *, servers: str = "kafka:9092", topic: str = "clean") -> dict[str, Any]:
    return {
        "metadata": {"creationTimestamp": created},
        "spec": {"kafka": {"bootstrapServers": servers}, "output": {"topic": topic}},
    }


OLDER = stream("2026-01-01T00:00:00Z")
YOUNGER = stream("2026-01-02T00:00:00Z")


def test_the_younger_of_two_streams_with_one_output_must_not_start() -> None:
    conflicts = OutputConflicts()
    conflicts.record(ORDERS, OLDER)

    problem = conflicts.problem(COPIES, YOUNGER)

    assert problem is not None
    assert problem.reason == "OutputTopicShared"
    assert "stream shop/orders" in problem.message
    assert conflicts.problem(ORDERS, OLDER) is None


def test_streams_of_the_same_age_are_told_apart_by_their_names() -> None:
    conflicts = OutputConflicts()
    conflicts.record(ORDERS, OLDER)

    assert conflicts.problem(COPIES, OLDER) is None
    assert conflicts.problem(ORDERS, OLDER) is not None


def test_one_address_in_common_makes_it_the_same_cluster() -> None:
    conflicts = OutputConflicts()
    conflicts.record(ORDERS, stream("2026-01-01T00:00:00Z", servers="a:9092,b:9092"))

    assert conflicts.problem(COPIES, stream("2026-01-02T00:00:00Z", servers="b:9092,c:9092"))
    assert not conflicts.problem(COPIES, stream("2026-01-02T00:00:00Z", servers="c:9092"))


def test_another_topic_is_nobodys_rival() -> None:
    conflicts = OutputConflicts()
    conflicts.record(ORDERS, OLDER)

    assert conflicts.problem(COPIES, stream("2026-01-02T00:00:00Z", topic="other")) is None


def test_a_stream_that_is_gone_leaves_its_output_to_the_next() -> None:
    conflicts = OutputConflicts()
    conflicts.record(ORDERS, OLDER)
    conflicts.forget(ORDERS)

    assert conflicts.problem(COPIES, YOUNGER) is None
