"""Do a reconcile that was asked for, where the session has done the usual one, and say how it ended."""

from dataclasses import asdict
from threading import Event

import structlog

from dedupe_crds.status.worker import ComparisonStatus
from dedupe_ids.extract import Extractor
from dedupe_worker.component_factory import Parts
from dedupe_worker.errors import DiskFull, StoreFailed
from dedupe_worker.kafka.admin import Topics
from dedupe_worker.recovery.full_reconcile import Outcome, compare
from dedupe_worker.status import Progress, show_reconcile
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
            log.error("full reconcile failed", reason=error.reason, error=str(error))
            parts.requests.answer(asked.model_copy(update={"error": f"{error.reason}: {error}"}))
            return
        if outcome is None:
            return
        found = asdict(outcome)
    parts.requests.answer(asked.model_copy(update=found))
    log.info("requested reconcile done", request=asked.request, full=asked.full, **found)


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
    log.info("full reconcile starts", request=asked.request, start=output.low, end=output.end)

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
            clock=parts.clock,
        )
    finally:
        reader.close()
