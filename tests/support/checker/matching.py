"""Match each record of an output partition with the input record that it was made from.

Records are equal if key, value, headers and timestamp are. Where several input records are equal, the transaction
decides if it is known; else the first that comes after the ones before, that could be read, and that may pass.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import inf

from tests.support.checker.id_sources import Id
from tests.support.checker.lives import InputRecord
from tests.support.checker.outside import EventKind, TopicRole
from tests.support.checker.record import Record
from tests.support.checker.timeline import Timeline
from tests.support.checker.topic_history import Written

Content = tuple[object, ...]


class Kind(Enum):
    """The kinds of matches."""

    EQUAL = "equal"
    ALTERED = "altered"
    AGAIN = "again"
    """Its input record was matched before."""


@dataclass(frozen=True, slots=True)
class Match:
    """The input record of an output record."""

    kind: Kind
    input: InputRecord


def content_of(record: Record) -> Content:
    """Return all of a record that must not change."""
    return (record.key, record.value, record.headers, record.timestamp_ms)


class Matcher:
    """The input records of one partition, each to be matched once."""

    def __init__(self, inputs: Sequence[InputRecord], timeline: Timeline) -> None:
        self._timeline = timeline
        self._equal: defaultdict[Content, list[InputRecord]] = defaultdict(list)
        self._same_id: defaultdict[Id, list[InputRecord]] = defaultdict(list)
        self._matched: set[int] = set()
        for each in inputs:
            self._equal[content_of(each.record)].append(each)
            if each.id is not None:
                self._same_id[each.id].append(each)

    def match(
        self,
        written: Written,
        identity: Id | None,
        furthest: int,
        may_pass: Callable[[InputRecord], bool],
    ) -> Match | None:
        """Return the input record of the next output record, or None if it is foreign.

        `furthest` is the last place matched before in this order.
        """
        equal = self._equal.get(content_of(written.record), [])
        found = self._choose(equal, written, furthest, may_pass)
        if found is not None:
            self._matched.add(found.place)
            return Match(Kind.EQUAL, found)
        if equal:
            return Match(Kind.AGAIN, self._last(equal, furthest))
        same = [] if identity is None else self._same_id.get(identity, [])
        found = self._choose(same, written, furthest, may_pass)
        if found is not None:
            self._matched.add(found.place)
            return Match(Kind.ALTERED, found)
        return Match(Kind.AGAIN, self._last(same, furthest)) if same else None

    def forget(self, place: int) -> None:
        """Let the records from a place on be matched again: they are read again."""
        self._matched = {each for each in self._matched if each < place}

    def is_matched(self, record: InputRecord) -> bool:
        """Return whether a record of the output was made from this one."""
        return record.place in self._matched

    def _choose(
        self,
        candidates: Sequence[InputRecord],
        written: Written,
        furthest: int,
        may_pass: Callable[[InputRecord], bool],
    ) -> InputRecord | None:
        at = bisect_right(candidates, furthest, key=lambda each: each.place)
        following = [each for each in candidates[at:] if each.place not in self._matched]
        arrived = [each for each in following if self._could_be_read(each, written)]
        here = self._timeline.offsets_of(written.transaction)
        if here is not None:
            in_transaction = [each for each in arrived if _is_within(each, here)]
            if in_transaction:
                return in_transaction[0]
        allowed = next((each for each in arrived if may_pass(each)), None)
        if allowed is not None:
            return allowed
        left = (each for each in candidates if each.place not in self._matched)
        return next(iter(arrived), None) or _first(following) or next(left, None)

    def _could_be_read(self, record: InputRecord, written: Written) -> bool:
        """Return whether a record had arrived, and was there and unread when the session began that wrote this."""
        timeline, offset = self._timeline, record.record.offset
        gone = timeline.retained_away(TopicRole.INPUT, record.topic, offset)
        arrived = record.written.time_ms <= written.time_ms
        start = timeline.start_of(written)
        unread = offset >= timeline.committed(record.topic, start) or timeline.between(
            -inf, start, EventKind.OFFSETS_LOST
        )
        of_topic = timeline.is_of(written, record.topic)
        return arrived and of_topic and gone >= start and bool(unread)

    def _last(self, candidates: Sequence[InputRecord], furthest: int) -> InputRecord:
        before = [each for each in candidates if each.place <= furthest]
        return before[-1] if before else candidates[0]


def _first(records: Iterable[InputRecord]) -> InputRecord | None:
    return next(iter(records), None)


def _is_within(record: InputRecord, transaction: tuple[str, int, int]) -> bool:
    topic_id, first, end = transaction
    return record.topic.topic_id == topic_id and first <= record.record.offset < end
