"""Entries of the epoch log and their form in Kafka."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_growth.entries import (
    Cuts,
    Direct,
    Done,
    Entry,
    EpochLogUnreadable,
    HandedOver,
    Listed,
    Prepare,
    Record,
    RouterStart,
    Switch,
    decode_entry,
    encode_entry,
)

FORMS: list[tuple[Entry, bytes]] = [
    (Prepare(epoch=1, partitions=6), b'{"entry":"prepare","epoch":1,"partitions":6}'),
    (
        Switch(epoch=1, partitions=6, inputs={"a": 8}),
        b'{"entry":"switch","epoch":1,"partitions":6,"inputs":{"a":8}}',
    ),
    (
        Listed(epoch=1, inputs={"a": 9, "b": 3}),
        b'{"entry":"list","epoch":1,"inputs":{"a":9,"b":3}}',
    ),
    (
        Cuts(epoch=1, cuts={0: 1207, 1: 1180}),
        b'{"entry":"cuts","epoch":1,"cuts":{"0":1207,"1":1180}}',
    ),
    (
        Direct(epoch=0, partitions=4, topic="a", topic_id="In1"),
        b'{"entry":"direct","epoch":0,"partitions":4,"topic":"a","topic_id":"In1"}',
    ),
    (
        HandedOver(epoch=1, cuts={0: 7}, starts={0: RouterStart(offset=9, topic_id="In1")}),
        b'{"entry":"handed-over","epoch":1,"cuts":{"0":7},"starts":{"0":{"offset":9,"topic_id":"In1"}}}',
    ),
    (Done(epoch=1), b'{"entry":"done","epoch":1}'),
]
numbers = st.integers(0, 2**63 - 1)
partitions = st.integers(0, 10_000)
topics = st.dictionaries(st.text('ab.é"', max_size=5), st.integers(0, 300_000), max_size=3)
entries: st.SearchStrategy[Entry] = st.one_of(
    st.builds(Prepare, epoch=numbers, partitions=partitions),
    st.builds(Switch, epoch=numbers, partitions=partitions, inputs=topics),
    st.builds(Listed, epoch=numbers, inputs=topics),
    st.builds(Cuts, epoch=numbers, cuts=st.dictionaries(numbers, numbers, max_size=3)),
    st.builds(Done, epoch=numbers),
    st.builds(Direct, epoch=numbers, partitions=partitions, topic=st.text(), topic_id=st.text()),
    st.builds(
        HandedOver,
        epoch=numbers,
        cuts=st.dictionaries(numbers, numbers, max_size=3),
        starts=st.dictionaries(
            numbers, st.builds(RouterStart, offset=numbers, topic_id=st.text()), max_size=3
        ),
    ),
)


@pytest.mark.parametrize(("entry", "value"), FORMS)
def test_the_form_of_each_entry_is_as_documented(entry: Entry, value: bytes) -> None:
    assert encode_entry(12, entry) == Record(b"12", value)
    assert decode_entry(12, Record(b"12", value)) == entry


@given(numbers, entries)
def test_what_was_written_is_read(number: int, entry: Entry) -> None:
    found = decode_entry(number, encode_entry(number, entry))
    assert (type(found), found) == (type(entry), entry)


@pytest.mark.parametrize("key", [b"", b"1", b"3", b"02", b"2 ", b"two"])
def test_an_entry_with_another_number_shows_that_one_is_missing(key: bytes) -> None:
    with pytest.raises(EpochLogUnreadable, match="entry 2 of the epoch log is missing"):
        decode_entry(2, Record(key, FORMS[-1][1]))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"no JSON",
        b"\xff",
        b"7",
        b"null",
        b"[]",
        b'{"epoch":1}',
        b'{"entry":"shrink","epoch":1}',
        b'{"entry":["done"],"epoch":1}',
        b'{"entry":"done"}',
        b'{"entry":"done","epoch":"first"}',
        b'{"entry":"done","epoch":1,"since":7}',
        b'{"entry":"prepare","epoch":1}',
        b'{"entry":"switch","epoch":1,"partitions":6}',
        b'{"entry":"cuts","epoch":1,"cuts":{"a":1}}',
        b'{"entry":"direct","epoch":0,"partitions":4,"topic":"a"}',
        b'{"entry":"handed-over","epoch":1,"cuts":{"0":1}}',
        b'{"entry":"handed-over","epoch":1,"cuts":{},"starts":{"0":{"offset":1}}}',
        b'{"entry":"handed-over","epoch":1,"cuts":{},"starts":{"0":{"offset":1,"topic_id":"a","cut":2}}}',
    ],
)
def test_an_entry_that_this_release_does_not_know_stops_the_reader(value: bytes) -> None:
    with pytest.raises(EpochLogUnreadable, match="entry 2 of the epoch log is none that this"):
        decode_entry(2, Record(b"2", value))


@pytest.mark.parametrize(
    "value",
    [
        b'{"entry":"prepare","epoch":0,"partitions":10001}',
        b'{"entry":"direct","epoch":0,"partitions":1000000000000,"topic":"a","topic_id":"In1"}',
        b'{"entry":"switch","epoch":0,"partitions":1,"inputs":{"a":500000,"b":500001}}',
        b'{"entry":"list","epoch":0,"inputs":{"a":-1}}',
    ],
)
def test_numbers_that_no_stream_has_stop_the_reader(value: bytes) -> None:
    with pytest.raises(EpochLogUnreadable):
        decode_entry(0, Record(b"0", value))


def test_an_unreadable_log_may_be_repaired_while_processes_wait() -> None:
    assert EpochLogUnreadable.retriable
