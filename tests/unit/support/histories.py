"""Histories for the tests of the checker: raw topics, and their expected output."""

from dataclasses import replace

from hypothesis import strategies as st

from tests.support.checker.id_sources import key_id
from tests.support.checker.record import Record, TimestampType


def record(
    offset: int,
    key: bytes | None,
    value: bytes | None = b"",
    *,
    partition: int = 0,
    headers: tuple[tuple[str, bytes | None], ...] = (),
    timestamp_ms: int = 1,
) -> Record:
    return Record(
        partition=partition,
        offset=offset,
        timestamp_type=TimestampType.CREATE_TIME,
        timestamp_ms=timestamp_ms,
        key=key,
        value=value,
        headers=headers,
    )


def deduplicated(raw: list[Record]) -> list[Record]:
    """Return the expected records, by the simplest rule, as repeats are rare."""
    passed: list[Record] = []
    for each in raw:
        before = [
            earlier
            for earlier in passed
            if (earlier.partition, earlier.key) == (each.partition, each.key)
        ]
        if key_id(each) is None or not before:
            passed.append(each)
    return renumbered(passed)


def renumbered(records: list[Record]) -> list[Record]:
    """Return records at offsets as transactions leave them: ascending, with gaps."""
    return [replace(each, offset=1000 + 3 * place) for place, each in enumerate(records)]


# Few keys and values, so that repeats and equal records without id are the rule.
raw_histories = st.lists(
    st.builds(
        record,
        offset=st.just(0),
        key=st.sampled_from([None, b"", b"a", b"b", b"c", b"d"]),
        value=st.sampled_from([None, b"", b"x", b"y"]),
        partition=st.sampled_from([0, 1]),
        headers=st.sampled_from([(), (("h", None),), (("h", b"1"), ("h", b"2"))]),
        timestamp_ms=st.integers(1, 3),
    ),
    max_size=30,
).map(lambda records: [replace(each, offset=2 * place) for place, each in enumerate(records)])
