"""A bootstrap of one partition that tells how it is through the log, as in a Kubernetes Job."""

import time
from typing import Final

import structlog

from dedupe_worker.bootstrap.job import Step
from dedupe_worker.bootstrap.request import Request
from dedupe_worker.bootstrap.setup import bootstrap, describe
from dedupe_worker.config import WorkerConfig

_EVERY_SECONDS: Final = 5.0

log = structlog.get_logger()


def logged_bootstrap(config: WorkerConfig, request: Request) -> None:
    """Run it. Raises a StreamError that says what to do."""
    summary = bootstrap(
        config.stream,
        config.properties,
        request,
        {config.partition: config.state},
        work=config.state.root / "bootstrap",
        on_progress=_Progress(),
    )
    log.info("bootstrapped", stream=config.stream_id, partition=config.partition)
    for line in describe(summary):
        log.info(line)


class _Progress:
    """A line now and then."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, step: Step) -> None:
        if time.monotonic() >= self._next:
            percent = round(100 * step.done / step.total) if step.total else 100
            log.info("bootstrap goes on", step=step.action, percent=percent)
            self._next = time.monotonic() + _EVERY_SECONDS
