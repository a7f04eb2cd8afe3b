"""The epochs of a stream are read as the release before wrote them: a stream that has grown stays so."""

import json
from typing import Any

import pytest
from confluent_kafka import Message

from dedupe_growth.entries import Record, decode_entry
from dedupe_growth.mark import mark_of
from dedupe_growth.routed_offsets import RoutedOffset, decode_routed
from dedupe_kafka.offset_metadata import OffsetMetadata, decode_metadata, split_token
from dedupe_worker.store.learnt import LearntOutputs
from dedupe_worker.store.metadata import METADATA_BYTES, decode_both
from tests.golden import FILES
from tests.golden.growth import CUT, ENTRIES, LEARNT, MARK, growth
from tests.golden.stores import IDENTITY


@pytest.fixture(scope="module")
def golden() -> Any:  # noqa: ANN401 (JSON)
    return json.loads((FILES / "growth.json").read_bytes())


def test_growth_is_written_as_it_was(golden: Any) -> None:  # noqa: ANN401 (JSON)
    assert json.dumps(growth()) == json.dumps(golden), "in this order"


def test_the_epoch_log_is_read(golden: Any) -> None:  # noqa: ANN401 (JSON)
    records = [Record(key.encode(), value.encode()) for key, value in golden["log"]]
    assert [decode_entry(number, each) for number, each in enumerate(records)] == ENTRIES


def test_the_mark_is_read(golden: Any) -> None:  # noqa: ANN401 (JSON)
    headers = [(name, value.encode()) for name, value in golden["mark"].items()]
    record = Message(topic="between", partition=0, offset=7, headers=headers)
    assert mark_of(record) == MARK


def test_the_offsets_of_routers_and_workers_are_read(golden: Any) -> None:  # noqa: ANN401 (JSON)
    assert decode_routed(golden["router_offset"]) == RoutedOffset(IDENTITY.input_topic_id, 1)
    text, token = split_token(golden["worker_offset"])
    wanted = OffsetMetadata(IDENTITY.output_topic_id, None, IDENTITY.input_topic_id, CUT)
    assert (decode_metadata(text), token) == (wanted, "3-1760000000000")


def test_what_a_store_has_learnt_is_read(golden: Any) -> None:  # noqa: ANN401 (JSON)
    written = bytes.fromhex(golden["store"])
    found = decode_both(written[:METADATA_BYTES], written)
    assert LearntOutputs(found.learnt).of(1) == LEARNT
