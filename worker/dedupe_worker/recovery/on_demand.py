"""Run a requested reconcile after the session's catch-up; store its result.

A request without `full` is done by the catch-up alone. `Session` calls this before the loop starts.
"""

from contextlib import ExitStack, closing
from dataclasses import asdict
from threading import Event

import structlog

from dedupe_crds.status.worker import ComparisonStatus
from dedupe_ids.extract import Extractor
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.dedup.window import Window
from dedupe_worker.errors import DiskFull, StoreFailed
from dedupe_worker.recovery.full_reconcile import Outcome, run_full_reconcile
from dedupe_worker.recovery.learnt_ids import LearntIds
from dedupe_worker.recovery.output_values import own_values
from dedupe_worker.recovery.taken_over import TakenOver
from dedupe_worker.status import Progress, show_progress

log = structlog.get_logger()


def run_requested(  # noqa: PLR0917 (the session's components, each once)
    request: ComparisonStatus,
    factory: ComponentFactory,
    partition: TakenOver,
    window: Window,
    extract: Extractor,
    stop: Event,
    *,
    learnt: LearntIds | None,
) -> None:
    """Complete a request after the catch-up; leave it open if `stop` is set meanwhile.

    An error of the full reconcile itself is the request's result. Other errors end the session: the next session tries
    again.
    """
    worker_state = factory.worker_state
    if not request.full:
        found = {"records": worker_state.reconcile.records if worker_state.reconcile else 0}
    else:
        try:
            outcome = _run_full(request, factory, partition, window, extract, stop, learnt)
        except (DiskFull, StoreFailed) as error:
            # The stream need not stop because there is no room for a full reconcile.
            worker_state.errors[error.reason] += 1
            log.error("full reconcile failed", reason=error.reason, error=str(error))
            factory.requests.answer(
                request.model_copy(update={"error": f"{error.reason}: {error}"})
            )
            return
        if outcome is None:
            return
        found = asdict(outcome)
    factory.requests.answer(request.model_copy(update=found))
    log.info("requested reconcile done", request=request.request, full=request.full, **found)


def _run_full(  # noqa: PLR0917 (as above)
    request: ComparisonStatus,
    factory: ComponentFactory,
    partition: TakenOver,
    window: Window,
    extract: Extractor,
    stop: Event,
    learnt: LearntIds | None,
) -> Outcome | None:
    config = factory.config
    topic = config.stream.spec.output.topic
    output = partition.topics.offsets(topic, config.partition)
    log.info("full reconcile starts", request=request.request, start=output.low, end=output.end)

    def show(progress: Progress) -> None:
        show_progress(factory.worker_state, "Full", progress)
        factory.requests.show(request.model_copy(update={"records": progress.records}))

    with ExitStack() as readers:
        reader = readers.enter_context(closing(factory.make_reader(topic)))
        reader.seek(output.low)
        return run_full_reconcile(
            reader,
            window.store.fully_reconcilable(),
            extract,
            values=own_values(factory, partition, window, readers, rebuild=True),
            directory=config.state.comparison,
            output=output,
            stop=stop,
            on_progress=show,
            learnt=learnt,
            clock=factory.clock,
        )
