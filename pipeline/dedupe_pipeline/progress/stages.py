"""Report how far the stages of a batch job are.

A thread asks Spark each second. Invariant: what is unknown is left out, and no error of a question ends the job.

The stages are those that Spark has planned so far: it plans the next ones when it knows the sizes of the present ones
(adaptive execution), so the number of tasks grows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # has no annotations
from pyspark.sql import SparkSession

from dedupe_crds.formatting import size
from dedupe_pipeline.report.report import Report, Step

_POLL_SECONDS: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class StageFigures:
    """One stage: its tasks, and what they have read and written so far.

    `records` and `moved_bytes` were read from files or a cache, passed on to other stages, or written. Spark counts
    nothing of what it reads from Kafka.
    """

    tasks: int
    tasks_done: int
    records: int = 0
    moved_bytes: int = 0

    @property
    def is_done(self) -> bool:
        """Return whether nothing of it will change."""
        return self.tasks_done == self.tasks


def step_of(action: str, stages: list[StageFigures]) -> Step:
    """Return the step of a job with these stages.

    >>> step_of("audit", [StageFigures(tasks=4, tasks_done=1, records=1000, moved_bytes=2048)]).details
    '1/4 tasks, 0/1 stages, 1,000 records, 2KiB'
    """
    done, total = sum(each.tasks_done for each in stages), sum(each.tasks for each in stages)
    stages_done = sum(each.is_done for each in stages)
    records, moved = sum(each.records for each in stages), sum(each.moved_bytes for each in stages)
    return Step(
        action=action,
        done=done,
        total=total or None,
        details=f"{done}/{total} tasks, {stages_done}/{len(stages)} stages, {records:,} records, {size(moved)}B",
        figures={
            "stages_done": stages_done,
            "stages": len(stages),
            "records": records,
            "moved_bytes": moved,
        },
    )


class Stages:
    """The stages of a session's batch jobs, as far as Spark has planned them."""

    def __init__(self, session: SparkSession) -> None:
        self._tracker = session.sparkContext.statusTracker()
        # PySpark's own tracker has tasks only.
        context: Any = session.sparkContext._jsc  # noqa: SLF001
        self._store = context.sc().statusStore()
        self._done: dict[int, StageFigures] = {}

    def read(self) -> list[StageFigures]:
        """Return the figures of each stage that has run, runs or waits."""
        found = []
        # Jobs without a group: those of streaming queries have one.
        for job in self._tracker.getJobIdsForGroup(None):
            info = self._tracker.getJobInfo(job)
            found += [] if info is None else list(info.stageIds)
        return [figures for stage in sorted(set(found)) if (figures := self._stage(stage))]

    def _stage(self, number: int) -> StageFigures | None:
        if number in self._done:
            return self._done[number]
        try:
            data = self._store.lastStageAttempt(number)
        except Py4JError:  # Spark forgets the oldest of many stages
            return None
        if data.status().toString() == "SKIPPED":  # its result was there
            return None
        figures = StageFigures(
            tasks=data.numTasks(),
            tasks_done=data.numCompleteTasks(),
            records=data.inputRecords() + data.outputRecords() + data.shuffleWriteRecords(),
            moved_bytes=data.inputBytes() + data.outputBytes() + data.shuffleWriteBytes(),
        )
        if figures.is_done and data.status().toString() == "COMPLETE":
            self._done[number] = figures
        return figures


@contextmanager
def stages_reported(session: SparkSession, action: str, report: Report) -> Iterator[None]:
    """Report the stages of the block's jobs."""
    ended = Event()
    stages = Stages(session)

    def poll() -> None:
        while not ended.wait(_POLL_SECONDS):
            try:
                found = stages.read()
            except (Py4JError, OSError):  # the session ends
                return
            if found:
                report.step(step_of(action, found))

    thread = Thread(target=poll, name="stages", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
