"""Judge the history of a world with the checker, which shares no code with the worker."""

from tests.simulation.recorder import Recorder
from tests.simulation.schedule.settings import Settings
from tests.support.checker.id_sources import IdOf, content_id, header_id, key_id
from tests.support.checker.outside import WindowBounds
from tests.support.checker.streams import judge_stream
from tests.support.checker.topic_history import Delivery, Rules, StreamHistory


def defects_of(recorder: Recorder, settings: Settings) -> list[str]:
    """Return what is wrong, a line for each kind of defect; nothing if all is right."""
    history = StreamHistory(
        rules=_rules(settings),
        topics=recorder.incarnations(),
        progress=recorder.progress,
        events=recorder.events,
        statuses=recorder.statuses,
    )
    verdict = judge_stream(history, _id_of(settings))
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
