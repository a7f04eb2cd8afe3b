"""Judge the history of a world with the checker, which shares no code with the worker."""

from typing import Final

from tests.simulation.recorder import Recorder
from tests.simulation.schedule.settings import OUTPUT, REPARTITION, Settings
from tests.support.checker.checker import Verdict
from tests.support.checker.id_sources import IdOf, content_id, header_id, key_id
from tests.support.checker.key_order import judge_key_order
from tests.support.checker.outside import WindowBounds
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
    routing = judge_routing(raw, routed)
    output = judge_repartitioned(
        raw,
        recorder.records(OUTPUT),
        _id_of(settings),
        ordered_by=lambda _: None,  # whatever of an input partition goes to one output partition
    )
    if not settings.exactly_once:
        routing.duplicated.clear()
        output.duplicated.clear()
        # A record without an id that passes again has no first copy left to be compared with.
        output.foreign[:] = [each for each in output.foreign if each.id is not None]
    elif settings.by_key:
        written = [(each.time_ms, each.record) for each in recorder.written(OUTPUT)]
        output.reordered += judge_key_order(raw, written, _id_of(settings))
    return [*(f"routing {line}" for line in _lines(routing)), *_lines(output)]


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
