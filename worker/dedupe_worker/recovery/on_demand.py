"""Do a reconcile that was asked for, where the session has done the usual one, and say how it ended."""

from dataclasses import asdict
from threading import Event

import structlog

from dedupe_crds.status.worker import ComparisonStatus
from dedupe_ids.extract import Extractor
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.errors import DiskFull, StoreFailed
from dedupe_worker.kafka.admin import Topics
from dedupe_worker.recovery.full_reconcile import Outcome, run_full_reconcile
from dedupe_worker.status import Progress, show_progress
from dedupe_worker.store.api import IdStore

log = structlog.get_logger()


def run_requested(  # noqa: PLR0917 (what the session has, each once)
    asked: ComparisonStatus,
    factory: ComponentFactory,
    topics: Topics,
    store: IdStore,
    extract: Extractor,
    stop: Event,
) -> None:
    """Do what is left of the request after the tail was read; without an answer if `stop` is set before.

    What the comparison itself fails on is the answer. Raises what else ends a session: the next one tries again.
    """
    worker_state = factory.worker_state
    if not asked.full:
        found = {"records": worker_state.reconcile.records if worker_state.reconcile else 0}
    else:
        try:
            outcome = _run_full(asked, factory, topics, store, extract, stop)
        except (DiskFull, StoreFailed) as error:
            # The stream need not stand still because there is no room to run_full_reconcile it.
            worker_state.errors[error.reason] += 1
            log.error("full reconcile failed", reason=error.reason, error=str(error))
            factory.requests.answer(asked.model_copy(update={"error": f"{error.reason}: {error}"}))
            return
        if outcome is None:
            return
        found = asdict(outcome)
    factory.requests.answer(asked.model_copy(update=found))
    log.info("requested reconcile done", request=asked.request, full=asked.full, **found)


def _run_full(  # noqa: PLR0917 (as above)
    asked: ComparisonStatus,
    factory: ComponentFactory,
    topics: Topics,
    store: IdStore,
    extract: Extractor,
    stop: Event,
) -> Outcome | None:
    config = factory.config
    topic = config.stream.spec.output.topic
    output = topics.offsets(topic, config.partition)
    log.info("full reconcile starts", request=asked.request, start=output.low, end=output.end)

    def show(progress: Progress) -> None:
        show_progress(factory.worker_state, "Full", progress)
        factory.requests.show(asked.model_copy(update={"records": progress.records}))

    reader = factory.make_reader(topic)
    try:
        reader.seek(output.low)
        return run_full_reconcile(
            reader,
            store.fully_reconcilable(),
            extract,
            directory=config.state.comparison,
            output=output,
            stop=stop,
            on_progress=show,
            clock=factory.clock,
        )
    finally:
        reader.close()
