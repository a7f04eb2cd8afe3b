"""Land in a table, and die or freeze at a step.

Usage: `python -m tests.support.spark.table_landing MANIFEST FORMAT TABLE WAREHOUSE [STEP [SIGNAL]]`.

The steps are wrapped from outside; the job does not know of them. Prints "landing" before the first batch, and "done"
with the number of its records at the end.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dedupe_crds.manifest import load_manifest
from dedupe_pipeline.errors import LandingOvertaken
from dedupe_pipeline.jobs.land.delta_table import DeltaTable
from dedupe_pipeline.jobs.land.iceberg_table import IcebergTable
from dedupe_pipeline.jobs.land.table_job import land_table
from dedupe_pipeline.session import session_for
from dedupe_pipeline.table_target import TableFormat, TableTarget
from tests.support.spark.session import SMALL

STEPS = ("before the files", "before the commit", "after the commit")
MAX_OFFSETS_PER_TRIGGER = 400
AT_BATCH = 2
OVERTAKEN = "overtaken"


def target(table_format: str, table: str, warehouse: str) -> TableTarget:
    """Return the table of the arguments; only Iceberg has a warehouse."""
    kind = TableFormat(table_format)
    return TableTarget(
        format=kind, name=table, warehouse=warehouse if kind is TableFormat.ICEBERG else None
    )


def _arm(step: str, number: int) -> None:
    """Send this process a signal at a step of its second batch."""
    calls = 0

    def wrap(wrapped: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401
            nonlocal calls
            calls += 1
            at = calls == AT_BATCH
            if before and at:
                os.kill(os.getpid(), number)
            result = wrapped(*args, **options)
            if not before and at:
                os.kill(os.getpid(), number)
            return result

        return call

    match step:
        case "before the files":
            for table in (IcebergTable, DeltaTable):
                table.append = wrap(table.append, before=True)  # type: ignore[method-assign] # the seam
        case "before the commit":
            IcebergTable._commit = wrap(IcebergTable._commit, before=True)  # type: ignore[method-assign] # noqa: SLF001
            DeltaTable.fitted = wrap(DeltaTable.fitted, before=False)  # type: ignore[method-assign]
        case "after the commit":
            for table in (IcebergTable, DeltaTable):
                table.append = wrap(table.append, before=False)  # type: ignore[method-assign]


def main(manifest: str, table_format: str, table: str, warehouse: str, *step: str) -> None:
    """Land the present records."""
    to = target(table_format, table, warehouse)
    spark = session_for("landing", to, master="local[2]", properties=SMALL)
    if step:
        _arm(step[0], int(step[1]) if step[1:] else signal.SIGKILL)
    print("landing", flush=True)
    stream = load_manifest(Path(manifest))
    try:
        done = land_table(spark, stream, to, max_offsets_per_trigger=MAX_OFFSETS_PER_TRIGGER)
    except LandingOvertaken:
        print(OVERTAKEN, flush=True)
    else:
        print("done", done.records, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
