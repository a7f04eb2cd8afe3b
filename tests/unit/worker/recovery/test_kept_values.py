"""The values of output records, kept by their offsets."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from confluent_kafka import Message

from dedupe_ids.batch import Rows
from dedupe_worker.recovery.kept_values import KeptValues
from dedupe_worker.side_topics.owner_log import OutputValues
from dedupe_worker.values import UNKNOWN_OWNER, Times, ValueLayout, Values

HASHED = ValueLayout(hashed=True)


class NumberedValues(OutputValues):
    """Values that are the rows of their records, as numbers."""

    def __init__(self) -> None:
        super().__init__(HASHED, partition=0, owner_log=None)

    def values(self, records: Sequence[Message], rows: Rows, times: Times) -> Values:
        assert len(times) == len(records)
        return np.frombuffer(b"".join(map(value, rows.tolist())), HASHED.dtype)


def value(number: int) -> bytes:
    return number.to_bytes(HASHED.dtype.itemsize, "big")


def test_each_record_has_its_own_value_and_others_are_unknown(tmp_path: Path) -> None:
    kept = KeptValues(tmp_path, NumberedValues())
    assert kept.of(np.array([0, 7])) == [UNKNOWN_OWNER, UNKNOWN_OWNER], "of an empty output"
    for rows in ([1, 2, 256], [300, 301]):
        kept.add([], np.array(rows, np.intp), np.array(rows) * 10)
    offsets = np.array([2560, 10, -1, 3010, 15, 99_999])
    assert kept.of(offsets) == [
        value(256),
        value(1),
        UNKNOWN_OWNER,
        value(301),
        UNKNOWN_OWNER,
        UNKNOWN_OWNER,
    ]


def test_a_stream_without_side_topics_keeps_none() -> None:
    assert not OutputValues(ValueLayout(), partition=0, owner_log=None).tells_something
    assert NumberedValues().tells_something
