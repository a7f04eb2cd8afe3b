"""Streams that want the same topic: one has it, the others wait."""

from collections.abc import Mapping
from typing import Any

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.stream import PartitionPhase, PartitionStatus, StreamStatus
from dedupe_kafka.topic_id import NO_TOPIC_ID
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.output_conflicts import OutputConflicts, known_topics
from tests.unit.operator.objects import raw_stream, stream

CLEAN = {"clean": "id-of-clean"}


def named(name: str, *, namespace: str = "shop", servers: str = "kafka:9092") -> DedupeStream:
    changes = {"metadata.name": name, "metadata.namespace": namespace}
    return stream(changes | {"spec.kafka.bootstrapServers": servers})


ORDERS, COPIES = named("orders"), named("copies")


def problem(
    conflicts: OutputConflicts, of: DedupeStream, held: Mapping[str, str] = CLEAN
) -> Problem | None:
    found = conflicts.find(of, held=held, routed={})
    assert found is None or found.blocks
    return found.problem if found else None


def recorded(
    name: str, *, created: str, partitions: int = 2, ids: list[str] | None = None
) -> tuple[dict[str, Any], StreamStatus]:
    """A stream as it is found when the operator starts."""
    changes = {"metadata.name": name, "metadata.creationTimestamp": created}
    raw = raw_stream(changes | {"spec.output.topic": "clean"})
    of_partitions = [
        PartitionStatus(partition=number, phase=PartitionPhase.RUNNING)
        for number in range(partitions)
    ]
    return raw, StreamStatus(partitions=of_partitions, topic_ids=ids)


def test_a_topic_belongs_to_the_first_stream_that_reaches_it() -> None:
    conflicts = OutputConflicts()
    assert problem(conflicts, ORDERS) is None
    found = problem(conflicts, COPIES)
    assert found is not None
    assert found.reason == "OutputTopicShared"
    assert "topic clean belongs to stream shop/orders" in found.message
    assert problem(conflicts, ORDERS) is None


def test_a_stream_of_another_namespace_is_not_named() -> None:
    conflicts = OutputConflicts()
    problem(conflicts, named("secret-plans", namespace="rivals"))
    found = problem(conflicts, ORDERS)
    assert found is not None
    assert "belongs to a stream of another namespace" in found.message
    assert "rivals" not in found.message
    assert "secret-plans" not in found.message


FAR, NEAR = "fake:9092", "kafka:9092,kafka-2:9092"


def claimed(
    conflicts: OutputConflicts, of: DedupeStream, held: Mapping[str, str] = CLEAN
) -> str | None:
    """The message of a conflict that blocks no stream."""
    found = conflicts.find(of, held=held, routed={})
    if found is None:
        return None
    assert not found.blocks
    assert found.problem.reason == "OutputTopicClaimed"
    return found.problem.message


def test_what_the_brokers_of_another_namespace_say_blocks_no_stream_and_both_say_so() -> None:
    conflicts = OutputConflicts()
    theirs = named("theirs", namespace="rivals", servers=FAR)
    assert claimed(conflicts, theirs) is None
    message = claimed(conflicts, ORDERS) or ""
    assert "has topic clean as well" in message
    assert "allowed.bootstrapServers" in message
    assert "rivals" not in message
    assert "theirs" not in message
    assert claimed(conflicts, theirs)
    assert problem(conflicts, COPIES), "in a namespace the first stream has it"
    conflicts.forget(Key("rivals", "theirs"))
    assert claimed(conflicts, ORDERS) is None


def test_an_address_beside_the_real_one_is_not_believed() -> None:
    """Whatever broker answers first speaks for all addresses, also without topic ids."""
    for held in (CLEAN, {"clean": NO_TOPIC_ID}):
        conflicts = OutputConflicts()
        theirs = named("theirs", namespace="rivals", servers=f"kafka:9092,{FAR}")
        assert claimed(conflicts, theirs, held) is None
        assert claimed(conflicts, ORDERS, held)


def test_the_brokers_that_a_stream_names_itself_are_believed() -> None:
    conflicts = OutputConflicts()
    assert problem(conflicts, named("theirs", namespace="rivals")) is None
    assert problem(conflicts, named("orders", servers=NEAR))
    assert problem(conflicts, ORDERS)


def test_brokers_that_the_platform_has_chosen_are_believed() -> None:
    conflicts = OutputConflicts(believed=True)
    assert problem(conflicts, named("theirs", namespace="rivals", servers=FAR)) is None
    assert problem(conflicts, ORDERS)


def test_a_stream_that_another_claims_keeps_its_topic_after_a_restart() -> None:
    conflicts = OutputConflicts()
    theirs, status = recorded("theirs", created="2025-01-01", ids=["id-of-clean"])
    theirs["metadata"]["namespace"] = "rivals"
    theirs["spec"]["kafka"]["bootstrapServers"] = FAR
    mine = recorded("orders", created="2026-01-01", ids=["id-of-clean"])
    conflicts.load([(theirs, status), mine])
    assert claimed(conflicts, ORDERS)
    assert problem(conflicts, COPIES)


def test_a_stream_that_has_not_reached_kafka_or_has_no_rights_blocks_none() -> None:
    """Its manifest may name the topic, and the addresses too."""
    conflicts = OutputConflicts()
    conflicts.load([recorded("squatter", created="2025-01-01", partitions=0)])
    assert problem(conflicts, named("squatter"), held={}) is None
    assert problem(conflicts, ORDERS) is None


def test_the_same_topic_at_another_address_is_the_same_and_another_cluster_is_not() -> None:
    conflicts = OutputConflicts()
    problem(conflicts, ORDERS)
    assert problem(conflicts, named("copies", servers="10.0.0.1:9092"))
    # Its address is in the list, but it was not what answered.
    squatter = named("more", servers="kafka:9092,other:9092")
    assert problem(conflicts, squatter, held={"clean": "another-id"}) is None


def test_without_topic_ids_one_address_in_common_makes_it_the_same() -> None:
    conflicts = OutputConflicts()
    old = {"clean": NO_TOPIC_ID}
    assert problem(conflicts, named("orders", servers="a:9092,B:9092"), held=old) is None
    assert problem(conflicts, named("copies", servers="b:9092,c:9092"), held=old)
    assert problem(conflicts, named("copies", servers="c:9092"), held=old) is None
    assert problem(conflicts, named("more", servers="c:9092"), held={"x": NO_TOPIC_ID}) is None


def test_a_side_topic_may_be_shared_but_is_no_output_of_another() -> None:
    conflicts = OutputConflicts()
    routed = {"repeats": "id-of-repeats"}
    for each in (ORDERS, COPIES):
        held = {each.metadata.name: f"id-of-{each.metadata.name}"}
        assert conflicts.find(each, held=held, routed=routed) is None
    into = named("more")
    assert conflicts.find(into, held=CLEAN, routed={"orders": "id-of-orders"})


def test_a_stream_that_is_gone_leaves_its_topics_to_the_next() -> None:
    conflicts = OutputConflicts()
    problem(conflicts, ORDERS)
    conflicts.forget(Key("shop", "orders"))
    assert problem(conflicts, COPIES) is None


def test_after_a_restart_a_topic_belongs_to_the_stream_that_had_it() -> None:
    """The other may be asked about first, and may be older."""
    conflicts = OutputConflicts()
    conflicts.load(
        [
            recorded("copies", created="2025-01-01", partitions=0, ids=None),
            recorded("orders", created="2026-01-01", ids=["id-of-clean"]),
        ]
    )
    assert problem(conflicts, COPIES)
    assert problem(conflicts, ORDERS) is None


def test_what_a_release_before_recorded_counts_by_address_until_kafka_answers() -> None:
    conflicts = OutputConflicts()
    conflicts.load([recorded("orders", created="2026-01-01")])
    assert problem(conflicts, COPIES)
    assert problem(conflicts, ORDERS) is None
    assert problem(conflicts, COPIES)
    # Only the topic's id counts from now on.
    assert problem(conflicts, named("more"), held={"clean": "another-id"}) is None


def test_a_topic_that_was_made_again_leaves_the_id_before_to_none() -> None:
    conflicts = OutputConflicts()
    problem(conflicts, ORDERS)
    problem(conflicts, ORDERS, held={"clean": "new-id"})
    assert problem(conflicts, COPIES) is None
    assert problem(conflicts, named("more"), held={"clean": "new-id"})


def test_what_the_status_records_is_what_is_loaded() -> None:
    old = {"clean": NO_TOPIC_ID}
    assert known_topics(ORDERS.spec, CLEAN) == ["id-of-clean"]
    assert known_topics(ORDERS.spec, old) == ["kafka:9092/clean"]
