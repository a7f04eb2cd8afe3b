"""Run job `aggregate`, and die by SIGKILL at a step.

Usage: `python -m tests.support.postgres.aggregating MANIFEST JOB DATABASE-URL [STEP]`.

The steps are wrapped from outside; the job does not know of them. Its expressions may use `fails_at_first()`, which
fails each task's first attempt and then is true.
"""

import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from pyspark import TaskContext

from dedupe_crds.manifest import load_manifest
from dedupe_pipeline.jobs.aggregate import Postgres, aggregate, load_job
from dedupe_pipeline.jobs.aggregate.exactly_once_writer import Database
from dedupe_pipeline.session import spark_session
from tests.support.spark.session import SMALL

BATCH = "AGGREGATING_BATCH"
"""Environment variable: the most records of a batch."""
RESULT_SIZE = "AGGREGATING_RESULT_SIZE"
"""Environment variable: what Spark's driver accepts, by default 1g."""


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying(step: Callable[..., object], *, before: bool, at_call: int) -> Callable[..., object]:
    calls = 0

    def wrapped(*args: object, **named: object) -> object:
        nonlocal calls
        calls += 1
        if before and calls == at_call:
            _die()
        done = step(*args, **named)
        if not before and calls == at_call:
            _die()
        return done

    return wrapped


STEPS: dict[str, tuple[object, str, bool, int]] = {
    "before the transaction": (Database, "add", True, 1),
    "in it, before anything": (Database, "_copy", True, 1),
    "in it, when the batch is copied": (Database, "_copy", False, 1),
    "in it, when the rows are added": (Database, "_add_rows", False, 1),
    "in it, when all is done": (Database, "_write_down", False, 1),
    "after its commit": (Database, "add", False, 1),
    "after the second commit": (Database, "add", False, 2),
}


def _fails_at_first() -> bool:
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        raise RuntimeError("the first attempt of every task fails")
    return True


if __name__ == "__main__":
    manifest, job, url, *step = sys.argv[1:]
    limits = {"spark.driver.maxResultSize": os.environ.get(RESULT_SIZE, "1g")}
    spark = spark_session("aggregating", master="local[2,3]", properties=SMALL | limits)
    spark.udf.register("fails_at_first", _fails_at_first, "boolean")
    if step:
        owner, name, before, at_call = STEPS[step[0]]
        setattr(owner, name, _dying(getattr(owner, name), before=before, at_call=at_call))
    print("aggregating", flush=True)
    aggregate(
        spark,
        load_manifest(Path(manifest)),
        load_job(Path(job)),
        Postgres.of(url),
        max_offsets_per_trigger=int(os.environ[BATCH]),
        patience=timedelta(seconds=120),
    )
