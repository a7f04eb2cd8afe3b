"""Stores of a stream with a repartition are filled from a topic of any number of partitions."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import time

import pytest

from dedupe_crds.manifest import load_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_ids.extract import pack_id
from dedupe_ids.jump_hash import partitions_of_ids
from dedupe_kafka.errors import InvalidConfig
from dedupe_kafka.partitioners import Partitioner
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_worker.bootstrap.progress import Summary
from dedupe_worker.bootstrap.request import Request, bootstrap
from dedupe_worker.bootstrap.source import Columns
from dedupe_worker.store.state_dir import StateDirectory
from tests.conftest import CreateTopic
from tests.support.checker.record import Message
from tests.support.traffic.streams import stream_manifest
from tests.support.traffic.traffic import order, produce

SEED = 11
PARTITIONS = 3


@pytest.fixture
def staged(broker: EmbeddedBroker, topics: CreateTopic, tmp_path: Path) -> DedupeStream:
    """A stream with two inputs, whose topics exist."""
    eu, us = topics("eu", 2), topics("us")
    clean, between = topics("clean", PARTITIONS), topics("between", PARTITIONS)
    found = stream_manifest(
        tmp_path,
        broker.bootstrap_servers,
        eu,
        clean,
        input={"topics": [eu, us]},
        repartition={"partitions": PARTITIONS, "topic": {"name": between}},
    )
    return load_manifest(found.manifest)


def fill(
    stream: DedupeStream,
    directory: Path,
    source: str,
    partitions: Sequence[int],
    partition_by: Partitioner | None = None,
) -> Summary:
    request = Request(
        source=f"topic:{source}",
        columns=Columns(),
        partition_by=partition_by,
        before=None,
        work_dir=None,
    )
    return bootstrap(
        stream,
        {},
        request,
        {number: StateDirectory(directory / f"state-{number}") for number in partitions},
        work=directory / "work",
        on_progress=lambda _: None,
    )


def orders(count: int) -> list[Message]:
    now = int(time() * 1000)
    return [replace(order(SEED, n, partitions=2), timestamp_ms=now) for n in range(count)]


def test_each_store_gets_the_ids_that_routers_will_send_to_it(
    staged: DedupeStream, topics: CreateTopic, tmp_path: Path
) -> None:
    old = topics("old", 2)
    sent = orders(200)
    elsewhere = [replace(message, partition=1 - message.partition) for message in sent[:50]]
    produce(staged.spec.kafka.bootstrap_servers, old, [*sent, *elsewhere])

    # One on its own, as a Job of Kubernetes fills it.
    stores = fill(staged, tmp_path, old, [0]).stores | fill(staged, tmp_path, old, [1, 2]).stores

    packed = b"".join(pack_id(message.key or b"") for message in sent)
    expected = Counter(partitions_of_ids(packed, PARTITIONS).tolist())
    assert {number: store.ids for number, store in stores.items()} == expected
    assert sum(store.repeated for store in stores.values()) == 50


def test_topics_of_the_stream_and_the_hash_of_producers_are_refused(
    staged: DedupeStream, topics: CreateTopic, tmp_path: Path
) -> None:
    for name in (*staged.spec.input.names, staged.spec.worker_input):
        with pytest.raises(InvalidConfig, match="would count as delivered"):
            fill(staged, tmp_path, name, [0])
    with pytest.raises(InvalidConfig, match="--partition-by is for streams without"):
        fill(staged, tmp_path, topics("old"), [0], Partitioner.CRC32)
