"""Judge the history of a world with the checker, which shares no code with the worker."""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from tests.simulation.recorder import Recorder
from tests.simulation.schedule.settings import (
    EPOCHS,
    OUTPUT,
    REPARTITION,
    Settings,
    input_topic,
)
from tests.support.checker.checker import Verdict
from tests.support.checker.id_sources import IdOf, content_id, header_id, key_id
from tests.support.checker.key_order import judge_key_order
from tests.support.checker.outside import WindowBounds
from tests.support.checker.record import Message, Record
from tests.support.checker.repartitioned import judge_repartitioned
from tests.support.checker.routing import judge_routing
from tests.support.checker.streams import judge_stream
from tests.support.checker.topic_history import Delivery, Rules, StreamHistory

MARK: Final = "dedupe-epoch"
"""The header of a mark in the repartition topic."""


def defects_of(recorder: Recorder, settings: Settings) -> list[str]:
    """Return what is wrong, a line for each kind of defect; nothing if all is right."""
    history = StreamHistory(
        rules=_rules(settings),
        topics=recorder.incarnations(),
        progress=recorder.progress,
        events=recorder.events,
        statuses=recorder.statuses,
    )
    return _lines(judge_stream(history, _id_of(settings)))


def routed_defects_of(recorder: Recorder, settings: Settings) -> list[str]:
    """Return what is wrong with a stream with routers: with what they wrote, and with the output.

    Without transactions a crash may let records pass twice.
    """
    raw = {topic: recorder.records(topic) for topic in settings.input_topics}
    # Beside what routers write, the marks between two epochs.
    routed = [each for each in recorder.records(REPARTITION) if MARK not in dict(each.headers)]
    routing = judge_routing(_left_to_routers(raw, recorder) if settings.direct else raw, routed)
    # Where all records pass, each counts as one without an id.
    id_of: IdOf = _nameless if settings.observes else _id_of(settings)
    written = [(each.time_ms, each.record) for each in recorder.written(OUTPUT)]
    if settings.table_slots:
        written = _first_ones(written, id_of)  # the table may forget any id
    output = judge_repartitioned(
        raw,
        [record for _, record in written],
        id_of,
        ordered_by=lambda _: None,  # whatever of an input partition goes to one output partition
    )
    if not settings.exactly_once:
        routing.duplicated.clear()
        output.duplicated.clear()
        # A record without an id that passes again has no first copy left to be compared with.
        output.foreign[:] = [each for each in output.foreign if each.id is not None]
    elif settings.by_key:
        output.reordered += judge_key_order(raw, written, id_of)
    return [*(f"routing {line}" for line in _lines(routing)), *_lines(output)]


def _left_to_routers(
    raw: Mapping[str, list[Record]], recorder: Recorder
) -> dict[str, list[Record]]:
    """Return what workers without routers have not read; that they have read the rest, the output shows."""
    entries = [json.loads(each.value or b"{}") for each in recorder.records(EPOCHS)]
    first = input_topic(0)
    starts = {
        int(partition): start["offset"]
        for entry in entries
        if entry["entry"] == "handed-over"
        for partition, start in entry["starts"].items()
    }
    left = [each for each in raw[first] if each.offset >= starts.get(each.partition, 0)]
    return {**raw, first: left}


def _first_ones(written: Iterable[tuple[int, Record]], id_of: IdOf) -> list[tuple[int, Record]]:
    """Return the records without the later ones of each id, in order of time."""
    firsts, seen = [], set()
    for time_ms, record in sorted(written, key=lambda each: each[0]):
        identity = id_of(record)
        if identity is None or identity not in seen:
            seen.add(identity)
            firsts.append((time_ms, record))
    return firsts


def _nameless(_: Record | Message) -> None:
    return None


def _lines(verdict: Verdict) -> list[str]:
    return [
        f"{kind}: {found[0]}" + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")
        for kind, found in verdict.defects.items()
    ]


def _rules(settings: Settings) -> Rules:
    generation_ids = settings.window_ids // settings.generations
    return Rules(
        bounds=WindowBounds(
            keep_ms=settings.max_age_seconds * 1000,
            generation_ms=settings.max_age_seconds * 1000 // settings.generations,
            # The oldest generation goes as a whole, and one may be over its size by a transaction.
            keep_ids=max(0, settings.window_ids - generation_ids - settings.largest_transaction),
        ),
        delivery=Delivery.EXACTLY_ONCE if settings.exactly_once else Delivery.AT_LEAST_ONCE,
        forgets_at_random=settings.table_slots is not None,
        routes_duplicates=settings.duplicates,
        routes_conflicts=settings.conflicts,
        routes_late=settings.late,
    )


def _id_of(settings: Settings) -> IdOf:
    match settings.id_from:
        case "Header":
            return header_id("id")
        case "Content":
            return content_id
    return key_id
