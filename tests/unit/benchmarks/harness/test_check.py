"""The judge of an output, on records that were never in Kafka."""

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest

from benchmarks.harness.check import Verdict, judge, without_origins
from benchmarks.harness.traffic import HEADERS, key_of, value_of
from dedupe_ids.origin import HEADER, encode_origin


@dataclass
class FakeRecord:
    """Stands in for confluent_kafka.Message."""

    number: int
    content: bytes | None = None
    sent_headers: list[Any] = field(default_factory=lambda: HEADERS)
    at: int = 0
    keyed: bool = True

    def partition(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 2, 1_000 * self.number

    def key(self) -> bytes | None:
        return key_of(self.number) if self.keyed else None

    def value(self) -> bytes:
        return self.content or value_of(self.number, key_of(self.number), 128)

    def headers(self) -> list[Any]:
        return self.sent_headers

    def set_headers(self, headers: list[Any]) -> None:
        self.sent_headers = headers


def verdict(*records: FakeRecord) -> Verdict:
    """Judge what should be the messages 0, 1 and 2, with values of 128 bytes."""
    made = lambda number, key: value_of(number, key, 128)  # noqa: E731 (a name for one line)
    return judge(cast("Any", records), np.ones(3, np.int64), made).verdict


def test_what_is_there_once_and_in_order_is_clean() -> None:
    assert verdict(FakeRecord(0), FakeRecord(1), FakeRecord(2)).is_clean


def test_a_record_that_is_missing_is_lost_and_one_too_many_is_twice() -> None:
    found = verdict(FakeRecord(0), FakeRecord(2), FakeRecord(2))
    assert (found.lost, found.twice, found.altered, found.reordered) == (1, 1, 0, 0)


def test_a_record_that_comes_late_is_reordered() -> None:
    found = verdict(FakeRecord(1), FakeRecord(0), FakeRecord(2))
    assert (found.lost, found.twice, found.reordered) == (0, 0, 1)


def test_without_keys_a_message_has_its_id_in_the_header() -> None:
    contents = [value_of(number, key_of(number)) for number in (0, 1)]
    records = [
        FakeRecord(number, content, [("id", key_of(number))], keyed=False)
        for number, content in enumerate(contents)
    ]
    found = judge(cast("Any", records), np.ones(2, np.int64), value_of, keyed=False).verdict
    assert found.is_clean
    assert judge(cast("Any", records), np.ones(2, np.int64), value_of).verdict.altered == 2


def routed(number: int, *, at: int, origin: bytes | None) -> FakeRecord:
    """A record of a repartition topic."""
    return FakeRecord(number, at=at, sent_headers=[*HEADERS, (HEADER, origin)])


def test_origins_are_taken_off_and_copies_that_do_not_meet_are_strays() -> None:
    origin = encode_origin("raw", 0, 7)
    sent = [
        routed(0, at=1, origin=origin),
        routed(0, at=1, origin=origin),
        routed(1, at=0, origin=origin),
        routed(1, at=1, origin=origin),
        routed(2, at=0, origin=None),
    ]

    records, strays = without_origins(cast("Any", sent), 3)

    assert [record.headers() for record in records][:4] == [HEADERS] * 4
    assert cast("Any", strays) == sent[3:]


def test_order_is_judged_within_a_partition() -> None:
    assert verdict(FakeRecord(1), FakeRecord(2), FakeRecord(0, at=1)).is_clean


@pytest.mark.parametrize(
    "record",
    [
        FakeRecord(1, content=value_of(1, key_of(1), 129)),
        FakeRecord(1, content=b"{}"),
        FakeRecord(1, sent_headers=[]),
        FakeRecord(3),
    ],
    ids=["other value", "no number", "no headers", "foreign"],
)
def test_a_record_that_is_not_as_it_was_sent_is_altered_and_the_message_lost(
    record: FakeRecord,
) -> None:
    found = verdict(FakeRecord(0), record, FakeRecord(2))
    assert (found.lost, found.altered) == (1, 1)
    assert not found.is_clean
