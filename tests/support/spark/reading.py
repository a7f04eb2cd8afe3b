"""Read an output topic from Python, as a batch or as a stream, and write what was read as lines of JSON.

Usage: `spark-submit reading.py source|clean batch|stream MANIFEST OUTPUT CHECKPOINT [OPTION=VALUE …]`

`source` is the data source, with these options; `clean` is `read_clean`, with these arguments. The session is a remote
one if SPARK_REMOTE is set.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_pipeline.session import spark_session
from dedupe_pipeline.source import read_clean, read_clean_stream
from tests.support.patience import HANG_SECONDS


def _frame(spark: SparkSession, stream: DedupeStream, how: str, kind: str, given: Any) -> DataFrame:  # noqa: ANN401
    if how == "clean":
        return (read_clean if kind == "batch" else read_clean_stream)(spark, stream, **given)
    from dedupe_pipeline.datasource.source import DedupeStreamSource  # noqa: PLC0415 (not Spark 3.5)

    # A source that is registered brings the --py-files to the tasks; one that Spark finds by itself does not.
    with suppress(AnalysisException):  # Spark 4.0 refuses one that it has found
        spark.dataSource.register(DedupeStreamSource)
    servers = {"bootstrapServers": stream.spec.kafka.bootstrap_servers}
    options = servers | {"topic": stream.spec.output.topic} | given
    reader = spark.read if kind == "batch" else spark.readStream
    return reader.format("dedupestream").options(**options).load()


def _read(how: str, kind: str, manifest: str, output: str, checkpoint: str, *given: str) -> None:
    """Read the present records once."""
    remote = "SPARK_REMOTE" in os.environ
    spark = SparkSession.builder.getOrCreate() if remote else spark_session("reading")
    options = dict(option.split("=", 1) for option in given)
    frame = _frame(spark, load_manifest(Path(manifest)), how, kind, options)
    wanted = frame.select("partition", "offset", "key", "value")
    if kind == "batch":
        _write(wanted, output)
    else:
        # Rows of a stream come back as a table of files, which a remote session can read too.
        files = f"{checkpoint}-files"
        writer = wanted.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start(files)
        if not query.awaitTermination(HANG_SECONDS):
            raise TimeoutError("the stream did not end")
        print("batches", len(list(Path(checkpoint).glob("commits/[0-9]*"))))
        _write(spark.read.parquet(files), output)
    spark.stop()


def _write(frame: DataFrame, output: str) -> None:
    with Path(output).open("w", encoding="utf-8") as lines:
        for row in frame.collect():
            key, value = (None if raw is None else bytes(raw).hex() for raw in (row.key, row.value))
            lines.write(json.dumps([row.partition, row.offset, key, value]) + "\n")


if __name__ == "__main__":
    _read(*sys.argv[1:])
