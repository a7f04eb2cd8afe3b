"""Copies of an id meet in one worker, wherever producers wrote them."""

import random
from collections.abc import Callable, Iterator
from uuid import UUID
from zlib import crc32

import pytest

from dedupe_ids.extract import pack_id
from dedupe_ids.jump_hash import partitions_of_ids
from dedupe_ids.origin import HEADER, encode_origin
from dedupe_kafka.cluster import Cluster
from tests.support.checker.checker import Verdict
from tests.support.checker.id_sources import IdOf, header_id, key_id
from tests.support.checker.record import Message, Record
from tests.support.checker.repartitioned import judge_repartitioned
from tests.support.patience import wait_for
from tests.support.processes.processes import Workers
from tests.support.processes.routers import RoutedStream, Routers

CreateStream = Callable[..., RoutedStream]

SEED = 20261125
BY_HEADER = {"from": "Header", "name": "id"}
header = header_id("id")


@pytest.fixture
def rng() -> random.Random:
    return random.Random(SEED)


def unkeyed(rng: random.Random, ids: list[bytes], partitions: int) -> Iterator[Message]:
    """Each id twice, in partitions that have nothing to do with it."""
    for raw in rng.sample(ids * 2, 2 * len(ids)):
        yield Message(
            rng.randrange(partitions), None, b"order " + raw, (("id", raw),), 1_700_000_000_000
        )


def some_ids(rng: random.Random, count: int) -> list[bytes]:
    return [str(UUID(int=rng.getrandbits(128), version=4)).encode() for _ in range(count)]


def drained(stream: RoutedStream, workers: Workers, partitions: int) -> None:
    """Run the workers until they have read all that is routed."""
    started = [workers.start(stream, number) for number in range(partitions)]
    stream.wait_until_read(started)
    for worker in started:
        assert worker.sigterm() == 0


def verdict(stream: RoutedStream, id_of: IdOf, partitions: int) -> Verdict:
    def partition_of(record: Record) -> int:
        raw = id_of(record)
        assert isinstance(raw, bytes)
        return int(partitions_of_ids(pack_id(raw), partitions)[0])

    clean = stream.clean()
    assert {record.partition for record in clean} == set(range(partitions))
    return judge_repartitioned(stream.raws(), clean, id_of, partition_of=partition_of)


def test_ids_in_a_header_of_records_without_keys(
    routed_streams: CreateStream, routers: Routers, workers: Workers, rng: random.Random
) -> None:
    stream = routed_streams(inputs=(4,), partitions=4, id=BY_HEADER)
    stream.send_to(stream.inputs[0], unkeyed(rng, some_ids(rng, 1000), 4))
    router = routers.start(stream)
    stream.wait_until_routed()
    assert router.status().counts.routed == 2000
    assert router.sigterm() == 0
    drained(stream, workers, 4)
    found = verdict(stream, header, 4)
    found.assert_exactly_once()
    assert found.expected == 1000


def test_a_keyed_topic_that_grows_while_it_is_routed(
    routed_streams: CreateStream, routers: Routers, workers: Workers, rng: random.Random
) -> None:
    stream = routed_streams(inputs=(2,), partitions=4)
    (raw,) = stream.inputs
    ids = some_ids(rng, 1000)
    router = routers.start(stream)
    stream.send_to(raw, [Message(crc32(key) % 2, key, b"first") for key in ids])
    stream.wait_until_routed()
    Cluster(stream.bootstrap_servers).grow(raw, 4)
    router.wait_until(
        lambda: [each.partitions for each in router.status().inputs] == [[0, 1, 2, 3]],
        "the new partitions are read",
    )
    assert "is new" in router.status().warnings["InputWaitsForEpoch"]
    stream.list_inputs()
    stream.send_to(raw, [Message(crc32(key) % 4, key, b"first") for key in ids])
    stream.wait_until_routed()
    drained(stream, workers, 4)
    found = verdict(stream, key_id, 4)
    found.assert_exactly_once()
    assert found.expected == 1000


def test_several_inputs_with_the_same_ids(
    routed_streams: CreateStream, routers: Routers, workers: Workers, rng: random.Random
) -> None:
    counts = (1, 2, 3)
    stream = routed_streams(inputs=counts, partitions=3, id=BY_HEADER)
    ids = some_ids(rng, 500)
    for name, count in zip(stream.inputs, counts, strict=True):
        stream.send_to(name, unkeyed(rng, ids, count))
    both = [routers.start(stream, number) for number in range(2)]
    stream.wait_until_routed()
    assert sum(router.status().counts.routed for router in both) == 3000
    everything = [
        (name, n) for name, count in zip(stream.inputs, counts, strict=True) for n in range(count)
    ]

    def shares_all() -> bool:
        inputs = [each for router in both for each in router.status().inputs]
        return sorted((each.topic, n) for each in inputs for n in each.partitions) == everything

    wait_for(shares_all, "the routers share all partitions")
    wait_for(
        lambda: {each.lag_messages for r in both for each in r.status().inputs} == {0},
        "no router has a lag",
    )
    drained(stream, workers, 3)
    verdict(stream, header, 3).assert_exactly_once()


def test_records_come_out_byte_for_byte(
    routed_streams: CreateStream, routers: Routers, workers: Workers
) -> None:
    stream = routed_streams(inputs=(1,), partitions=2, id=BY_HEADER)
    own = (HEADER, encode_origin("elsewhere", 1, 2))
    stream.send_to(
        stream.inputs[0],
        [
            Message(0, None, None, (), 1_700_000_000_000),
            Message(0, b"", b"", (("id", b""),), 1),
            Message(0, b"k", b"\x00\xff" * 100, (("id", b"1"), own), 1_700_000_000_001),
            Message(0, b"k", b"v", (own, ("id", b"2"), ("x", None)), 1_700_000_000_002),
            Message(0, None, b"v", (own,), 1_700_000_000_003),
        ],
    )
    routers.start(stream)
    stream.wait_until_routed()
    assert all(record.headers[-1][0] == HEADER for record in stream.raw())
    drained(stream, workers, 2)
    found = judge_repartitioned(stream.raws(), stream.clean(), header)
    found.assert_exactly_once()
    assert found.found == 5
