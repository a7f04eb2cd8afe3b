"""Judge two histories: did each message pass once, unchanged and in order?

Pure: it gets two histories and knows neither Kafka nor the worker. The expected output topic follows from the input
topic, partition by partition: the first record of each id, and every record without an id, byte for byte, in order.
Every difference is a defect.

A record without an id is identified by its content alone, so a changed record is both lost and foreign.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields

from tests.support.checker.id_sources import Id, IdOf
from tests.support.checker.record import Record

_EXAMPLES = 5
_SHOWN_CHARS = 80
_Content = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Defect:
    """A record that is not as expected; its offset is None in a topic that lacks it."""

    partition: int
    raw_offset: int | None
    clean_offset: int | None
    id: Id | None
    detail: str = ""

    def __str__(self) -> str:
        places = [
            f"{topic} offset {offset}"
            for topic, offset in (("raw", self.raw_offset), ("clean", self.clean_offset))
            if offset is not None
        ]
        name = "without id" if self.id is None else f"id {_shortened(self.id)}"
        if not places:
            return f"partition {self.partition}: {self.detail}"
        detail = f": {self.detail}" if self.detail else ""
        return f"partition {self.partition}, {', '.join(places)}, {name}{detail}"


@dataclass(slots=True)
class Repeats:
    """The repeats of ids that a judge has met.

    An `unjudged` one may pass or not. Those of a table of fixed size are judged together: it may lose about
    `expected_to_pass` ids, and `passed` repeats did pass.
    """

    all: int = 0
    unjudged: int = 0
    of_tables: int = 0
    expected_to_pass: float = 0.0
    passed: int = 0

    def __add__(self, other: "Repeats") -> "Repeats":
        """Count both."""
        return Repeats(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(self))
        )


@dataclass(kw_only=True)
class Verdict:
    """The defects; all lists are empty if there is none.

    `judged` counts input records; `expected`, `found` and `expired` count records of the output; expired ones were
    deleted by retention before they were read. `judge` finds only the first six kinds, `judge_stream` all, and only it
    counts `repeats`.
    """

    lost: list[Defect] = field(default_factory=list)
    """Expected in the output topic, but not there."""
    duplicated: list[Defect] = field(default_factory=list)
    """Once more in the output topic."""
    altered: list[Defect] = field(default_factory=list)
    """In the output topic, but different from its first record in the input topic."""
    reordered: list[Defect] = field(default_factory=list)
    """In the output topic after a record that it must precede."""
    foreign: list[Defect] = field(default_factory=list)
    """In the output topic, but not in this partition of the input topic."""
    ahead: list[Defect] = field(default_factory=list)
    """In the output topic, though the committed input offset does not cover it."""
    misplaced: list[Defect] = field(default_factory=list)
    """In the output topic, but sent to another partition."""
    misrouted: list[Defect] = field(default_factory=list)
    """Not in its side topic, more than once, or there with wrong headers or without cause."""
    silent: list[Defect] = field(default_factory=list)
    """A promise was not kept, and no status names a reason."""
    unfounded: list[Defect] = field(default_factory=list)
    """A status names a reason for which there was no cause."""
    judged: int = 0
    expected: int = 0
    found: int = 0
    expired: int = 0
    repeats: Repeats = field(default_factory=Repeats)

    @property
    def defects(self) -> dict[str, list[Defect]]:
        """Return the defects by kind, without empty kinds."""
        kinds = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: found for name, found in kinds.items() if isinstance(found, list) and found}

    def assert_exactly_once(self, of: int, *, or_more: bool = False) -> None:
        """Fail with examples of each defect, or if not `of` input records were judged.

        A history that is empty by mistake has no defect. `or_more`: the traffic ran until something happened.
        """
        assert not self.defects, str(self)
        enough = self.judged >= of if or_more else self.judged == of
        assert enough, f"{self.judged} input records were judged, not {of}"

    def __str__(self) -> str:
        totals = f"{self.expected} records expected, {self.found} found"
        if not self.defects:
            return f"exactly once: {totals}"
        counts = ", ".join(f"{len(found)} {kind}" for kind, found in self.defects.items())
        lines = [f"not exactly once: {counts}; {totals}"]
        for kind, found in self.defects.items():
            lines += [f"  {kind}: {defect}" for defect in found[:_EXAMPLES]]
            if len(found) > _EXAMPLES:
                lines.append(f"  {kind}: and {len(found) - _EXAMPLES} more")
        return "\n".join(lines)


def judge(
    raw: Iterable[Record],
    clean: Iterable[Record],
    id_of: IdOf,
    *,
    up_to: Mapping[int, int] | None = None,
    observe: bool = False,
) -> Verdict:
    """Compare two histories, each in order of offsets within a partition.

    `up_to` has the committed input offset of each partition (0 if absent): records before it must be in the clean
    topic, and no others may. Without `up_to` all records must be there. With `observe` duplicates must pass as well.
    """
    verdict = Verdict()
    raw_partitions, clean_partitions = _by_partition(raw), _by_partition(clean)
    for partition in sorted(raw_partitions.keys() | clean_partitions.keys()):
        committed = None if up_to is None else up_to.get(partition, 0)
        expectation = _Expectation(id_of, committed, observe=observe)
        for record in raw_partitions[partition]:
            expectation.add(record)
        expectation.compare(clean_partitions[partition], verdict)
    return verdict


def _by_partition(records: Iterable[Record]) -> defaultdict[int, list[Record]]:
    partitions = defaultdict(list)
    for record in records:
        partitions[record.partition].append(record)
    return partitions


class _Expectation:
    """The expected records of one partition of the output topic.

    A place is a position in their order.
    """

    def __init__(self, id_of: IdOf, committed: int | None, *, observe: bool) -> None:
        self._id_of = id_of
        self._committed = committed
        self._observe = observe
        self._records: list[Record] = []
        self._place_of_id: dict[Id, int] = {}
        self._places_of_content: dict[_Content, list[int]] = {}
        self._places_tried: dict[_Content, int] = {}
        self._judged = 0

    def add(self, raw: Record) -> None:
        """Add the next record of the input topic."""
        self._judged += self._is_due(raw)
        identity = self._identity(raw)
        if identity is None:
            self._places_of_content.setdefault(content_of(raw), []).append(len(self._records))
        elif identity in self._place_of_id:
            return
        else:
            self._place_of_id[identity] = len(self._records)
        self._records.append(raw)

    def compare(self, clean: Sequence[Record], verdict: Verdict) -> None:
        """Add the defects of the clean partition to the verdict."""
        found = bytearray(len(self._records))
        furthest = -1
        for record in clean:
            place = self._place(record, furthest, found)
            if place is None:
                verdict.foreign.append(self._defect(None, record))
                continue
            first = self._records[place]
            if found[place]:
                verdict.duplicated.append(self._defect(first, record))
                continue
            found[place] = True
            if changed := _changed(first, record):
                verdict.altered.append(self._defect(first, record, f"{changed} differ"))
            if place < furthest:
                after = f"it stands after raw offset {self._records[furthest].offset}"
                verdict.reordered.append(self._defect(first, record, after))
            if not self._is_due(first):
                verdict.ahead.append(self._defect(first, record))
            furthest = max(furthest, place)
        due = [place for place, record in enumerate(self._records) if self._is_due(record)]
        lost = [self._records[place] for place in due if not found[place]]
        verdict.lost.extend(self._defect(record, None) for record in lost)
        verdict.judged += self._judged
        verdict.expected += len(due)
        verdict.found += len(clean)

    def _place(self, record: Record, furthest: int, found: bytearray) -> int | None:
        """Return the place of a record.

        Of several places with equal content it is the next free place, or a taken place if none is free.
        """
        identity = self._identity(record)
        if identity is not None:
            return self._place_of_id.get(identity)
        content = content_of(record)
        places = self._places_of_content.get(content)
        if places is None:
            return None
        following = bisect_right(places, furthest)  # no place after the furthest is taken
        if following < len(places):
            return places[following]
        tried = self._places_tried.get(content, 0)
        while tried < len(places) - 1 and found[places[tried]]:
            tried += 1
        self._places_tried[content] = tried
        return places[tried]

    def _identity(self, record: Record) -> Id | None:
        return None if self._observe else self._id_of(record)

    def _is_due(self, raw: Record) -> bool:
        return self._committed is None or raw.offset < self._committed

    def _defect(self, raw: Record | None, clean: Record | None, detail: str = "") -> Defect:
        record = raw or clean
        assert record is not None
        return Defect(
            partition=record.partition,
            raw_offset=raw.offset if raw else None,
            clean_offset=clean.offset if clean else None,
            id=self._id_of(record),
            detail=detail,
        )


def content_of(record: Record) -> _Content:
    """Return what a record is but for its place."""
    return (record.key, record.value, record.headers, record.timestamp_ms)


def _changed(raw: Record, clean: Record) -> str:
    names = ("key", "value", "headers", "timestamp_ms")
    return ", ".join(name for name in names if getattr(raw, name) != getattr(clean, name))


def _shortened(identity: Id) -> str:
    text = repr(identity)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}… ({len(text)} characters)"
