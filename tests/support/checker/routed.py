"""Judge the side topics: is each routed record there once, with its original?

`judge_routes` is pure: like the checker it gets histories and knows neither Kafka nor the worker.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from dedupe_crds.manifest import load_manifest
from tests.support.checker.history import read_topic, wait_until_settled
from tests.support.checker.id_sources import Id, IdOf
from tests.support.checker.record import Headers, Record
from tests.support.traffic.streams import TestStream

_ADDED = ("dedupe-original", "dedupe-position", "dedupe-age-ms", "dedupe-late")
_EXAMPLES = 5

Expected = Counter[tuple[object, ...]]


@dataclass(frozen=True, kw_only=True)
class Routes:
    """The records in the side topics for duplicates and conflicts."""

    duplicates: Sequence[Record]
    conflicts: Sequence[Record] | None
    """None if the stream routes conflicts as duplicates."""


def routed(stream: TestStream, field: str) -> list[Record]:
    """Read a side topic by its field in the manifest.

    `field` is `duplicates`, `conflicts` or `late`.
    """
    topic = getattr(load_manifest(stream.manifest).spec, field).topic
    wait_until_settled(stream.bootstrap_servers, topic)
    return read_topic(stream.bootstrap_servers, topic)


def routes_of(stream: TestStream) -> Routes:
    """Read the side topics of a stream for duplicates and conflicts."""
    conflicts = load_manifest(stream.manifest).spec.conflicts.topic
    return Routes(
        duplicates=routed(stream, "duplicates"),
        conflicts=routed(stream, "conflicts") if conflicts else None,
    )


def judge_routes(raw: Sequence[Record], routes: Routes, id_of: IdOf) -> None:
    """Assert that every duplicate of the input topic is in the right side topic once.

    It must be unchanged, with headers for the position of its original, its own position, and how much younger it is.
    Raises AssertionError.
    """
    conflicts_routed = routes.conflicts is not None
    duplicates, conflicts = _expected(raw, id_of, conflicts_routed=conflicts_routed)
    _compare("duplicates", duplicates, routes.duplicates)
    _compare("conflicts", conflicts, routes.conflicts or ())


def repeats(raw: Sequence[Record], id_of: IdOf) -> Iterator[tuple[Record, Record]]:
    """Yield every record that repeats an earlier record of its partition, with that."""
    first: dict[tuple[int, Id], Record] = {}
    for record in raw:
        identity = id_of(record)
        if identity is None:
            continue
        original = first.setdefault((record.partition, identity), record)
        if original is not record:
            yield record, original


def added(record: Record) -> dict[str, str]:
    """Return the headers that the worker has added."""
    return {name: (value or b"").decode() for name, value in record.headers if name in _ADDED}


def _expected(
    raw: Sequence[Record], id_of: IdOf, *, conflicts_routed: bool
) -> tuple[Expected, Expected]:
    duplicates, conflicts = Expected(), Expected()
    for record, original in repeats(raw, id_of):
        same = (original.key, original.value) == (record.key, record.value)
        kind = conflicts if conflicts_routed and not same else duplicates
        headers = (
            ("dedupe-original", f"{original.partition}:{original.offset}".encode()),
            ("dedupe-position", f"{record.partition}:{record.offset}".encode()),
            ("dedupe-age-ms", str(record.timestamp_ms - original.timestamp_ms).encode()),
        )
        kind[_content(record, (*record.headers, *headers))] += 1
    return duplicates, conflicts


def _compare(kind: str, expected: Expected, found: Sequence[Record]) -> None:
    have = Expected(_content(record, record.headers) for record in found)
    wrong = [
        f"{count} {what}: {content}"
        for what, difference in (("missing", expected - have), ("too many", have - expected))
        for content, count in difference.items()
    ]
    assert not wrong, (
        f"not exactly once: {len(wrong)} {kind} differ of {expected.total()}:\n"
        + "\n".join(wrong[:_EXAMPLES])
    )


def _content(record: Record, headers: Headers) -> tuple[object, ...]:
    return (record.partition, record.timestamp_ms, record.key, record.value, headers)


def everything(*topics: Sequence[Record]) -> Counter[tuple[object, ...]]:
    """Count each record's content over several topics, without the added headers."""
    return Counter(
        _content(record, tuple(header for header in record.headers if header[0] not in _ADDED))
        for record in chain(*topics)
    )
