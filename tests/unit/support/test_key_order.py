"""The judge of a key's order over all partitions of the output."""

from tests.support.checker.id_sources import header_id
from tests.support.checker.key_order import judge_key_order
from tests.support.checker.record import Record, TimestampType


def record(partition: int, offset: int, number: int, key: bytes = b"k") -> Record:
    headers = (("id", b"%d" % number),)
    return Record(partition, offset, TimestampType.CREATE_TIME, 1, key, b"value", headers)


RAW = {"raw": [record(0, number, number) for number in range(4)]}


def late(*clean: tuple[int, Record]) -> list[int | None]:
    """Return the input offsets of the records that came too late."""
    return [each.raw_offset for each in judge_key_order(RAW, clean, header_id("id"))]


def test_a_key_that_changes_to_another_partition_keeps_its_order() -> None:
    assert late((1, record(0, 0, 0)), (2, record(0, 1, 1)), (3, record(2, 0, 2))) == []


def test_a_record_that_is_overtaken_in_another_partition_is_found() -> None:
    assert late((1, record(2, 0, 2)), (2, record(0, 0, 1)), (3, record(2, 1, 3))) == [1]


def test_records_that_became_visible_at_once_have_no_order() -> None:
    assert late((1, record(2, 0, 2)), (1, record(0, 0, 1))) == []


def test_other_keys_and_inputs_have_an_order_of_their_own() -> None:
    raw = {**RAW, "other": [record(0, 0, 9), record(0, 1, 8, b"other")]}
    clean = [(1, record(1, 0, 8, b"other")), (2, record(1, 1, 9)), (3, record(0, 0, 0))]
    assert judge_key_order(raw, clean, header_id("id")) == []


def test_copies_in_two_inputs_are_not_judged() -> None:
    raw = {**RAW, "other": [record(0, 0, 1)]}
    clean = [(1, record(2, 0, 2)), (2, record(0, 0, 1))]
    assert judge_key_order(raw, clean, header_id("id")) == []
