"""A record from consume to commit: one step of a worker's real loop, between Kafka clients in memory."""

from pathlib import Path
from typing import Final
from unittest.mock import patch

from dedupe_crds.manifest import parse_manifest
from dedupe_ids.extract import extractor_for
from dedupe_kafka.clients import Clients
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import WorkerConfig
from dedupe_worker.dedup.border import NoBorder
from dedupe_worker.dedup.uncommitted_output import UncommittedIds
from dedupe_worker.dedup.window import Window
from dedupe_worker.store.state_dir import StateDirectory
from tests.support.tracer import Tracer
from tests.unit.architecture.kafka_clients import MemoryConsumer, MemoryProducer, record
from tests.unit.crds.manifests import changed

ALL_ROUTES: Final = {
    "metadata.namespace": "shop",
    "spec.duplicates": {"policy": "Topic", "topic": "orders-duplicates"},
    "spec.conflicts": {"policy": "Topic", "topic": "orders-conflicts"},
    "spec.late": {"policy": "Topic", "topic": "orders-late", "maxAge": "1h"},
    "spec.output.filter": {"from": "Header", "name": "user"},
}
"""A stream whose records can go everywhere."""

BATCH: Final = [
    record(0, b"new", b"1"),
    record(1, b"new", b"1"),
    record(2, b"new", b"2"),
    record(3, b"old", b"1", time_ms=1_000),
]
"""A new record, its duplicate, a conflict, and a late one."""

TOPICS: Final = [
    "orders-clean",
    "orders-duplicates",
    "orders-conflicts",
    "orders-late",
    "orders-clean-owners",
    "orders-clean-filters",
]
"""The topics that the producer sends to, side records included, in order."""


def run(tracer: Tracer, directory: Path) -> MemoryProducer:
    """Take the walk; return the producer with what it has sent."""
    config = WorkerConfig(
        stream=parse_manifest(changed(ALL_ROUTES), "test"),
        partition=0,
        state=StateDirectory(directory),
        properties={},
    )
    clients = Clients(consumer=MemoryConsumer, producer=MemoryProducer)
    factory = ComponentFactory(config, clients=clients)
    reader, output = factory.make_reader("orders"), factory.make_output(1 << 20)
    store = factory.make_store()
    extract = extractor_for(config.stream.spec.id)
    loop = factory.make_loop(
        "id of the output topic",
        partitions=1,
        reader=reader,
        output=output,
        window=Window(store, factory.policy.layout.dtype),
        extract=extract,
        uncommitted=UncommittedIds(),
        border=NoBorder(),
        record_limit=100,
    )
    reader.seek(0)
    reader._consumer.give(BATCH)  # type: ignore[attr-defined] # noqa: SLF001 (made by the factory)
    commit = loop.commit

    def commit_and_end() -> None:
        commit()
        tracer.stop()

    with patch.object(loop, "commit", commit_and_end), tracer.installed(), tracer.record():
        loop.step()
    store.close()
    assert not loop.in_transaction
    producer = output._producer  # noqa: SLF001 (made by the factory)
    assert isinstance(producer, MemoryProducer)
    return producer
