"""Do a reconcile that was asked for, where the session has done the usual one, and say how it ended."""

from dataclasses import asdict
from threading import Event

import structlog

from dedupe_crds.status.worker import ComparisonStatus, ReconcileStatus
from dedupe_ids.extract import Extractor
from dedupe_worker.component_factory import Parts
from dedupe_worker.errors import DiskFull, StoreFailed
from dedupe_worker.kafka.admin import Topics
from dedupe_worker.recovery.full_reconcile import Outcome, compare
from dedupe_worker.recovery.tail import Progress
from dedupe_worker.status import Board
from dedupe_worker.store.api import IdStore

log = structlog.get_logger()


def answer(  # noqa: PLR0917 (what the session has, each once)
    asked: ComparisonStatus,
    parts: Parts,
    topics: Topics,
    store: IdStore,
    extract: Extractor,
    stop: Event,
) -> None:
    """Do what is left of the request after the tail was read; without an answer if `stop` is set before.

    What the comparison itself fails on is the answer. Raises what else ends a session: the next one tries again.
    """
    board = parts.board
    if not asked.full:
        found = {"records": board.reconcile.records if board.reconcile else 0}
    else:
        try:
            outcome = _compare(asked, parts, topics, store, extract, stop)
        except (DiskFull, StoreFailed) as error:
            # The stream need not stand still because there is no room to compare it.
            board.errors[error.reason] += 1
            log.error("comparison failed", reason=error.reason, error=str(error))
            parts.requests.answer(asked.model_copy(update={"error": f"{error.reason}: {error}"}))
            return
        if outcome is None:
            return
        found = asdict(outcome)
    parts.requests.answer(asked.model_copy(update=found))
    log.info("reconciled as asked", request=asked.request, full=asked.full, **found)


def show_reconcile(board: Board, reason: str, progress: Progress) -> None:
    """Show how far a reconcile is."""
    board.beat()
    board.reconcile = ReconcileStatus(
        reason=reason,
        records=progress.records,
        remaining=progress.remaining,
        seconds=progress.seconds,
    )


def _compare(  # noqa: PLR0917 (as above)
    asked: ComparisonStatus,
    parts: Parts,
    topics: Topics,
    store: IdStore,
    extract: Extractor,
    stop: Event,
) -> Outcome | None:
    config = parts.config
    topic = config.stream.spec.output.topic
    output = topics.offsets(topic, config.partition)
    log.info("comparing", request=asked.request, start=output.low, end=output.end)

    def show(progress: Progress) -> None:
        show_reconcile(parts.board, "Full", progress)
        parts.requests.show(asked.model_copy(update={"records": progress.records}))

    reader = parts.reader(topic)
    try:
        reader.seek(output.low)
        return compare(
            reader,
            store,
            extract,
            directory=config.state.comparison,
            output=output,
            stop=stop,
            on_progress=show,
        )
    finally:
        reader.close()
