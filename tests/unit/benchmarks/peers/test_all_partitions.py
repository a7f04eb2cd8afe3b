"""The partitions of an output are judged together, and order within each."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from benchmarks.harness import check
from benchmarks.harness.check import Output, check_all_partitions
from benchmarks.harness.traffic import HEADERS, key_of, traffic, value_of


class FakeRecord(NamedTuple):
    """What the checker reads of a record."""

    place: int
    number: int
    milliseconds: int

    def partition(self) -> int:
        return self.place

    def key(self) -> bytes:
        return key_of(self.number)

    def value(self) -> bytes:
        return value_of(self.number, self.key())

    def headers(self) -> object:
        return HEADERS

    def timestamp(self) -> tuple[int, int]:
        return 2, self.milliseconds


def judge(monkeypatch: pytest.MonkeyPatch, *partitions: list[int], deduplicated: bool) -> Output:
    def read(_servers: str, _topic: str, partition: int) -> Iterator[FakeRecord]:
        for at, number in enumerate(partitions[partition]):
            yield FakeRecord(partition, number, milliseconds=at * 1_000)

    monkeypatch.setattr(check, "_read", read)
    sent = traffic(4, repeat_rate=0.0)
    return check_all_partitions("", "", sent, partitions=len(partitions), deduplicated=deduplicated)


def test_a_message_may_be_in_any_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    output = judge(monkeypatch, [1, 3], [0, 2], deduplicated=True)

    assert output.verdict.is_clean
    assert output.appended.tolist() == [0, 0, 1, 1]
    verdict = judge(monkeypatch, [0, 1, 2], [2], deduplicated=True).verdict
    assert (verdict.lost, verdict.twice) == (1, 1)


def test_the_order_of_a_copy_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge(monkeypatch, [3, 1], [0, 2], deduplicated=True).verdict.reordered == 1
    assert judge(monkeypatch, [3, 1], [0, 2], deduplicated=False).verdict.is_clean
