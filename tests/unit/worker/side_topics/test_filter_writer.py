"""The key of a filter: it shows readers which transactions are of one producer."""

from confluent_kafka import Message

from dedupe_crds.manifest import parse_manifest
from dedupe_filters.wire_format import Origin, decode
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.side_topics.writers import side_topic_writers
from tests.unit.crds.manifests import changed


def written(delivery: str) -> tuple[bytes | None, Origin]:
    """Return key and origin of the filter of one record."""
    filter_ = {"from": "Header", "name": "country"}
    stream = parse_manifest(
        changed({"spec.output.filter": filter_, "spec.delivery": delivery}), "-"
    )
    [writer] = side_topic_writers(stream.spec, "id", transactional_id="shop.orders.3")
    writer.add([Message(topic="t", partition=0, offset=0, timestamp=(1, 5))], [])  # type: ignore[arg-type] # owners are not used
    [record] = writer.records(OffsetRange(7, 8))
    chunk = decode(record.value)
    assert chunk is not None
    return record.key, chunk.origin


def test_the_filter_of_a_transaction_has_the_transactional_id_of_its_producer() -> None:
    assert written("ExactlyOnce") == (b"shop.orders.3", Origin.TRANSACTION)


def test_the_filter_of_records_without_a_transaction_has_no_key() -> None:
    assert written("AtLeastOnce") == (None, Origin.APPENDED)
