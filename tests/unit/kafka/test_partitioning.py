"""Samples of keys, and the judgement if copies meet."""

import random
import re
from collections.abc import Sequence

import pytest
from confluent_kafka import Message

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.topics import IdSource
from dedupe_crds.status.key_sample import KeySample
from dedupe_kafka.partitioners import Partitioner, partitions_of
from dedupe_kafka.partitioning import (
    PartitioningReason,
    describe_shared_ids,
    judge_partitioning,
    judge_stream,
)
from dedupe_worker.kafka.key_sample import KeyCounter
from tests.simulation.kafka.simple_clock import SimpleClock
from tests.unit.crds.manifests import changed

BY_KEY = IdSource.model_validate({"from": "Key"})
BY_HEADER = IdSource.model_validate({"from": "Header", "name": "id"})
KEYS = [f"order-{number}".encode() for number in range(600)]
COUNT = 4


def sampled(keys: Sequence[bytes | None], partitions: Sequence[int]) -> list[KeySample]:
    """Return the samples of workers whose partitions have the keys."""
    found = []
    for partition in range(COUNT):
        clock = SimpleClock()
        counter = KeyCounter(partition, clock)
        counter.begin(COUNT)
        mine = [key for key, at in zip(keys, partitions, strict=True) if at == partition]
        for start in range(0, len(mine), 50):
            counter.offer([Message(key=key) for key in mine[start : start + 50]])
            clock.sleep(1.0)
        assert counter.sample is not None
        found.append(counter.sample)
    return found


@pytest.mark.parametrize(
    ("by", "source", "reason", "meet"),
    [
        ("Id", {"from": "Content"}, PartitioningReason.BY_ID, True),
        ("Key", {"from": "Key"}, PartitioningReason.BY_ID, True),
        ("Key", {"from": "Content"}, PartitioningReason.BY_KEY, None),
    ],
)
def test_with_routers_no_sample_is_needed(
    by: str, source: dict[str, str], reason: PartitioningReason, meet: bool | None
) -> None:
    given = {"spec.id": source, "spec.repartition": {"partitions": 4, "by": by}}
    found = judge_stream([], parse_manifest(changed(given), "-").spec)
    assert (found.reason, found.meet) == (reason, meet)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"topics": ["orders", "returns"]},
            r"spec\.input\.topics \(orders, returns\): of two records",
        ),
        ({"pattern": "orders-.*"}, r"spec\.input\.pattern \(/orders-\.\*/\): of two records"),
        ({"topics": ["orders"]}, None),
        ({"topic": "orders"}, None),
    ],
)
@pytest.mark.parametrize("by", ["Id", "Key"])
def test_of_several_inputs_it_is_said_that_they_share_their_ids(
    given: dict[str, object], said: str | None, by: str
) -> None:
    repartition = {"partitions": 4, "by": by}
    fields = {"spec.input": given, "spec.repartition": repartition, "spec.id": {"from": "Key"}}
    spec = parse_manifest(changed(fields), "-").spec
    found = judge_stream([], spec).message
    if said is None:
        assert "unique" not in found
        assert describe_shared_ids(spec) is None
        return
    assert re.search(said, found)
    content = parse_manifest(changed(fields | {"spec.id": {"from": "Content"}}), "-").spec
    assert describe_shared_ids(content) is None, "equal content is the same message"


@pytest.mark.parametrize("partitioner", Partitioner)
@pytest.mark.parametrize("source", [BY_KEY, BY_HEADER])
def test_a_known_partitioner_is_found(partitioner: Partitioner, source: IdSource) -> None:
    samples = sampled(KEYS, partitions_of(KEYS, COUNT, partitioner).tolist())
    found = judge_partitioning(samples, source)
    assert (found.reason, found.meet) == (PartitioningReason.BY_KEY, True)
    assert partitioner in found.message
    assert ("same key" in found.message) == (source is BY_HEADER)


def test_partitions_that_no_key_explains_are_unknown() -> None:
    rng = random.Random(7)
    found = judge_partitioning(sampled(KEYS, [rng.randrange(COUNT) for _ in KEYS]), BY_KEY)
    assert (found.reason, found.meet) == (PartitioningReason.UNKNOWN, False)


def test_two_partitioners_on_one_topic_are_unknown() -> None:
    """The Java client and librdkafka differ by default: a well-known mistake."""
    half = len(KEYS) // 2
    java = partitions_of(KEYS[:half], COUNT, Partitioner.MURMUR2)
    other = partitions_of(KEYS[half:], COUNT, Partitioner.CRC32)
    samples = sampled(KEYS, [*java.tolist(), *other.tolist()])
    assert judge_partitioning(samples, BY_KEY).reason is PartitioningReason.UNKNOWN


def test_keys_of_a_topic_that_had_fewer_partitions_are_unknown() -> None:
    samples = sampled(KEYS, partitions_of(KEYS, COUNT // 2, Partitioner.MURMUR2).tolist())
    assert judge_partitioning(samples, BY_KEY).reason is PartitioningReason.UNKNOWN


def test_a_record_by_hand_changes_nothing_but_many_do() -> None:
    places = partitions_of(KEYS, COUNT, Partitioner.MURMUR2).tolist()
    for wrong, reason in ((3, PartitioningReason.BY_KEY), (60, PartitioningReason.UNKNOWN)):
        moved = [(at + 1) % COUNT for at in places[:wrong]] + places[wrong:]
        assert judge_partitioning(sampled(KEYS, moved), BY_KEY).reason is reason


def test_records_without_keys_are_named_if_their_ids_are_elsewhere() -> None:
    keys = [*KEYS[:300], *[None] * 300]
    places = [
        *partitions_of(KEYS[:300], COUNT, Partitioner.MURMUR2).tolist(),
        *[number % COUNT for number in range(300)],
    ]
    found = judge_partitioning(sampled(keys, places), BY_HEADER)
    assert (found.reason, found.meet) == (PartitioningReason.NO_KEYS, False)
    assert "50 %" in found.message
    assert judge_partitioning(sampled(keys, places), BY_KEY).reason is PartitioningReason.BY_KEY


def test_a_stream_by_key_whose_records_have_none_is_named() -> None:
    found = judge_partitioning(sampled([None] * 400, [n % COUNT for n in range(400)]), BY_KEY)
    assert (found.reason, found.meet) == (PartitioningReason.NO_KEYS, False)


def test_few_records_are_no_sample_and_one_partition_needs_none() -> None:
    few = [KeySample(partitions=4, records=20, fits={"murmur2": 5})]
    assert judge_partitioning(few, BY_KEY).meet is None
    assert judge_partitioning([], BY_KEY).meet is None
    one = [KeySample(partitions=1, records=20, without_key=20)]
    assert judge_partitioning(one, BY_HEADER).meet is True


def test_a_change_of_the_producers_shows_and_so_does_its_end() -> None:
    clock = SimpleClock()
    counter = KeyCounter(0, clock)
    counter.begin(COUNT)
    places = partitions_of(KEYS, COUNT, Partitioner.CRC32)
    keys = [key for key, at in zip(KEYS, places, strict=True) if at == 0]

    def offer(times: int, *, keyed: bool) -> PartitioningReason:
        for _ in range(times):
            counter.offer([Message(key=each if keyed else None) for each in keys[:60]])
            clock.sleep(1.0)
        assert counter.sample is not None
        return judge_partitioning([counter.sample], BY_HEADER).reason

    assert offer(100, keyed=True) is PartitioningReason.BY_KEY
    assert offer(3, keyed=False) is PartitioningReason.NO_KEYS
    assert offer(200, keyed=True) is PartitioningReason.BY_KEY


def test_a_sample_of_another_number_of_partitions_does_not_count() -> None:
    counter = KeyCounter(0, SimpleClock())
    assert counter.sample is None
    counter.begin(COUNT)
    counter.offer([Message(key=b"a")] * 60)
    assert counter.sample is not None
    assert counter.sample.records == 60
    counter.begin(COUNT + 2)
    assert (counter.sample.partitions, counter.sample.records) == (COUNT + 2, 0)
