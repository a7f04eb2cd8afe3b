"""Judge what routers have written: each record of the inputs once, unchanged, in order.

Pure, and stricter than the judgement of the output, where a worker hides a record that is routed twice. The origin of a
record is read here by another definition than the router's.
"""

from collections.abc import Callable, Iterable, Mapping

from tests.support.checker.checker import Defect, Verdict, content_of
from tests.support.checker.record import Record

ORIGIN = "dedupe-origin"

Origin = tuple[str, int, int]
"""Topic, partition and offset."""


def origin_of(record: Record) -> Origin:
    """Return the origin in the last header. Raises AssertionError if there is none."""
    name, value = record.headers[-1] if record.headers else ("", None)
    assert name == ORIGIN, f"the last header of {record} is {name!r}"
    assert value is not None
    assert value[0] == 1, f"version {value[0]}"
    return value[9:].decode(), int.from_bytes(value[1:3], "big"), int.from_bytes(value[3:9], "big")


def judge_routing(
    raw: Mapping[str, Iterable[Record]],
    routed: Iterable[Record],
    *,
    may_come_again: Callable[[Origin], bool] = lambda _: False,
) -> Verdict:
    """Compare the inputs, by topic, with the repartition topic.

    `may_come_again`: without transactions, what was written and not committed is routed again.
    """
    verdict = Verdict()
    expected = {
        (topic, record.partition, record.offset): record
        for topic, records in raw.items()
        for record in records
    }
    seen: set[Origin] = set()
    furthest: dict[tuple[str, int, int], int] = {}
    for record in routed:
        verdict.found += 1
        origin = topic, partition, offset = origin_of(record)
        defect = Defect(record.partition, offset, record.offset, None, f"of {topic}/{partition}")
        first = expected.get(origin)
        if first is None:
            verdict.foreign.append(defect)
            continue
        if origin in seen:
            if not may_come_again(origin):
                verdict.duplicated.append(defect)
            continue
        seen.add(origin)
        if (*content_of(first)[:2], first.headers, first.timestamp_ms) != (
            *content_of(record)[:2],
            record.headers[:-1],
            record.timestamp_ms,
        ):
            verdict.altered.append(defect)
        way = topic, partition, record.partition
        if offset < furthest.get(way, -1):
            verdict.reordered.append(defect)
        furthest[way] = max(furthest.get(way, -1), offset)
    verdict.lost += [
        Defect(partition, offset, None, None, f"of {topic}/{partition}")
        for topic, partition, offset in expected.keys() - seen
    ]
    verdict.judged = verdict.expected = len(expected)
    return verdict
