"""Run jobs in a session of Spark Connect, and print how each ended, as lines of JSON.

Usage: `SPARK_REMOTE=sc://… python remote_jobs.py MANIFEST DIRECTORY`
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_pipeline.errors import PipelineError
from dedupe_pipeline.jobs.aggregate import Postgres, aggregate
from dedupe_pipeline.jobs.aggregate.job_file import AggregateJob
from dedupe_pipeline.jobs.audit import audit
from dedupe_pipeline.jobs.bootstrap.job import PastIds, bootstrap
from dedupe_pipeline.jobs.land.job import land
from dedupe_pipeline.session import spark_session

_JOB = {
    "table": "orders",
    "schema": "n INT",
    "eventTime": "record.timestamp",
    "window": "1h",
    "measures": {"orders": "count(*)"},
}


def _run(manifest: str, directory: str) -> None:
    stream, output = load_manifest(Path(manifest)), Path(directory)
    spark = SparkSession.builder.getOrCreate()
    source = PastIds(source=f"topic:{stream.spec.output.topic}")
    job = AggregateJob.model_validate(_JOB, by_alias=True, by_name=False)
    jobs: dict[str, Callable[[], object]] = {
        "audit": lambda: audit(spark, stream).outcome.name,
        "land": lambda: land(spark, stream, output / "landed"),
        "bootstrap": lambda: bootstrap(spark, stream, source, output / "ids"),
        "aggregate": lambda: aggregate(spark, stream, job, Postgres.of(None, {})),
        "session": lambda: spark_session("jobs"),
    }
    for name, call in jobs.items():
        try:
            ended = str(call())
        except PipelineError as error:
            ended = f"{type(error).__name__}: {error}"
        print(json.dumps([name, ended]))
    spark.stop()


if __name__ == "__main__":
    _run(*sys.argv[1:])
