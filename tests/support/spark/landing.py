"""Run job `land`, and die by SIGKILL at a step.

Usage: `python -m tests.support.spark.landing MANIFEST OUTPUT [STEP]`.

The steps are wrapped from outside; the job does not know of them.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dedupe_crds.manifest import load_manifest
from dedupe_pipeline.jobs.land import job
from dedupe_pipeline.session import spark_session
from tests.support.spark.session import SMALL

STEPS = ("before staging", "after staging", "between two dates", "before Spark's commit")
MAX_OFFSETS_PER_TRIGGER = 400

Step = TypeVar("Step", bound=Callable[..., None])


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying(step: Callable[..., None], *, before: bool, at_call: int = 1) -> Callable[..., None]:
    calls = 0

    def wrapped(*args: object) -> None:
        nonlocal calls
        calls += 1
        if before and calls == at_call:
            _die()
        step(*args)
        if not before and calls == at_call:
            _die()

    return wrapped


def _arm(step: str | None) -> None:
    match step:
        case "before staging":
            job.stage = _dying(job.stage, before=True)
        case "after staging":
            job.stage = _dying(job.stage, before=False)
        case "between two dates":
            job.publish = _publish_one_date  # type: ignore[attr-defined] # the seam
        case "before Spark's commit":
            job.publish = _dying(job.publish, before=False)  # type: ignore[attr-defined] # the seam


def _publish_one_date(staging: Path, output: Path, batch: int) -> None:
    """Die once the first of several new dates is published; the rest is staged."""
    rename = Path.rename
    Path.rename = _dying(rename, before=False)  # type: ignore[assignment,method-assign] # the seam
    publish_batch(staging, output, batch)


publish_batch = job.publish  # type: ignore[attr-defined] # the seam

if __name__ == "__main__":
    manifest, output, *step = sys.argv[1:]
    spark = spark_session("landing", master="local[2]", properties=SMALL)
    _arm(step[0] if step else None)
    print("landing", flush=True)
    job.land(
        spark,
        load_manifest(Path(manifest)),
        Path(output),
        max_offsets_per_trigger=MAX_OFFSETS_PER_TRIGGER,
    )
