"""On brokers without topic ids a topic is known again by its last records."""

from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dedupe_kafka.offsets import OffsetRange
from dedupe_kafka.topic_id import NO_TOPIC_ID
from dedupe_worker.errors import TopicUnproved
from dedupe_worker.kafka.admin import Topic
from dedupe_worker.kafka.consumer import Batch
from dedupe_worker.recovery.taken_over import TakenOver
from dedupe_worker.recovery.topic_proof import Proof, ProvedTopics, prove, prove_topics
from dedupe_worker.store.metadata import LastRecords
from dedupe_worker.store.state_dir import Identity
from dedupe_worker.values import fingerprint
from tests.golden.stores import open_store
from tests.unit.worker.strategies import message

LAST = message(50, b"a", b"1")
RECORDED = fingerprint(LAST, 50)
OUTPUT = OffsetRange(0, 40)


class Reader:
    """A partition with one record at or after the offset that is asked for."""

    topic = "orders"

    def __init__(self, record: Any = LAST) -> None:  # noqa: ANN401 (confluent_kafka's)
        self._record = record

    def seek(self, offset: int) -> None:
        assert offset == 50

    def read(self, _max_records: int, _wait_seconds: float) -> Batch:
        return Batch([self._record], self._record.offset() + 1, 0)

    def check(self, end: int) -> None:
        assert end == 90

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("recorded", "available", "record", "expected"),
    [
        ("", OffsetRange(0, 90), LAST, Proof.SAME),  # an upgrade: none is recorded yet
        (RECORDED, OffsetRange(0, 90), LAST, Proof.SAME),
        (RECORDED, OffsetRange(0, 90), message(50, b"a", b"2"), Proof.ANEW),
        (RECORDED, OffsetRange(0, 90), message(50, b"b", b"1"), Proof.ANEW),
        (RECORDED, OffsetRange(0, 50), LAST, Proof.ANEW),  # it ends before
        (RECORDED, OffsetRange(0, 0), LAST, Proof.ANEW),
        (RECORDED, OffsetRange(51, 90), LAST, Proof.UNPROVED),  # retention took it
        (RECORDED, OffsetRange(90, 90), LAST, Proof.SAME),  # there is nothing to skip
        (RECORDED, OffsetRange(0, 90), message(53, b"a", b"1"), Proof.GONE),
    ],
)
def test_a_topic_is_known_by_its_last_record(
    recorded: str, available: OffsetRange, record: object, expected: Proof
) -> None:
    found = prove(recorded, available, lambda: cast("Any", Reader(record)), Event())
    assert found is expected


def proved(
    available: OffsetRange,
    *,
    input_id: str = NO_TOPIC_ID,
    known: str = NO_TOPIC_ID,
    written: str = "",
    unproved: bool = False,
    trimmed: bool = False,
    output: OffsetRange = OUTPUT,
) -> ProvedTopics:
    kafka = SimpleNamespace(accept_unproved_topics=unproved)
    spec = SimpleNamespace(kafka=kafka, repartition={} if trimmed else None)
    factory = SimpleNamespace(
        config=SimpleNamespace(stream=SimpleNamespace(spec=spec)), make_reader=lambda _: Reader()
    )
    identity = Identity(stream="a/b", partition=0, input_topic_id=input_id, output_topic_id="out")
    partition = TakenOver(
        topics=cast("Any", SimpleNamespace(offsets=lambda *_: available)),
        input_topic=Topic("orders", input_id, 1),
        output_topic=Topic("clean", input_id, 1),
        identity=identity,
        recorded=identity,
    )
    metadata = SimpleNamespace(input_topic=known, last_read=RECORDED, last_written=written)
    return prove_topics(cast("Any", factory), partition, cast("Any", metadata), output, Event())


def test_each_topic_that_was_made_anew_gets_an_id_of_its_own() -> None:
    assert proved(OffsetRange(0, 90)) == ProvedTopics(NO_TOPIC_ID)
    again = proved(OffsetRange(0, 9))
    assert again == ProvedTopics(NO_TOPIC_ID + "#2")
    assert proved(OffsetRange(0, 9), known=again.input_id).input_id == NO_TOPIC_ID + "#3"
    assert proved(OffsetRange(0, 90), known=again.input_id) == again


def test_an_output_that_was_made_anew_is_told() -> None:
    assert proved(OffsetRange(0, 90), written=RECORDED).output_anew


def test_what_can_not_be_proved_is_refused_unless_that_is_accepted() -> None:
    with pytest.raises(TopicUnproved, match="acceptUnprovedTopics"):
        proved(OffsetRange(60, 90))
    assert proved(OffsetRange(60, 90), unproved=True) == ProvedTopics(NO_TOPIC_ID)


def test_a_last_record_that_the_worker_itself_has_deleted_needs_no_proof() -> None:
    assert proved(OffsetRange(60, 90), trimmed=True) == ProvedTopics(NO_TOPIC_ID)
    again = proved(OffsetRange(0, 9), trimmed=True)
    assert again.input_id == NO_TOPIC_ID + "#2", "one that ends before is another topic"
    with pytest.raises(TopicUnproved):
        proved(OffsetRange(0, 90), written=RECORDED, output=OffsetRange(60, 90), trimmed=True)


def test_nothing_is_read_where_topics_have_ids() -> None:
    assert proved(OffsetRange(60, 90), input_id="Ab1") == ProvedTopics("Ab1")


def test_fingerprints_are_kept_until_others_come_and_that_of_the_input_as_long_as_the_topic(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path / "db")
    store.begin_input(NO_TOPIC_ID)
    for number, last in enumerate((LastRecords("1 1 a", "2 2 b"), LastRecords("3 3 c"))):
        store.write([], [], output_position=number, input_offset=number, seen_ms=1, last=last)
    store.close()
    store = open_store(tmp_path / "db")
    assert store.metadata is not None
    assert (store.metadata.last_read, store.metadata.last_written) == ("3 3 c", "2 2 b")
    store.begin_input(NO_TOPIC_ID + "#2")
    assert (store.metadata.last_read, store.metadata.last_written) == ("", "2 2 b")
    store.close()
