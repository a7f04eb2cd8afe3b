"""Run the job `bootstrap`: sort ids delivered in the past for a new stream.

The command `dedupe-pipeline bootstrap` calls it. It writes to the output directory, from which
`dedupe bootstrap --from DIRECTORY` loads the ids without sorting them again:

    partition=3/part-….parquet    columns id16 (binary, the 16 bytes of the store's keys) and seen_ms
                                  (when the id was last seen); each id once, sorted over all files
    bootstrap-of.json             the stream, its input, its number of partitions and its repartition
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # has no annotations
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.repartition import Repartition, RepartitionBy
from dedupe_crds.spec.stream import DedupeStream, Spec
from dedupe_crds.spec.topics import IdFrom
from dedupe_ids.column_ids import IdType
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.input_topics import matching_topics
from dedupe_kafka.partitioners import Partitioner
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import NotShared, PipelineError, RequestRefused, first_line
from dedupe_pipeline.jobs.bootstrap.files import seen_ms
from dedupe_pipeline.jobs.bootstrap.id_encoding import (
    id_partition,
    key_partition,
    packed_ids,
    record_id,
)
from dedupe_pipeline.jobs.id_files import IdFile, check_column
from dedupe_pipeline.jobs.written_files import check_written, local_output
from dedupe_pipeline.runtime.hadoop_paths import spark_path
from dedupe_pipeline.runtime.portable import refuse_remote
from dedupe_pipeline.source import read_range
from dedupe_pipeline.table_target import TableTarget

_TOPIC = "topic:"
_MARKER = "bootstrap-of.json"


@dataclass(frozen=True, kw_only=True)
class PastIds:
    """The source of the ids: topic:NAME, files, or a table, with these columns.

    Files are of Parquet or CSV. `id_type` is the type of the ids in the stream's JSON, if the column does not tell.
    The partition is that of the record, or in a column; otherwise `partition_by` is the hash by which producers choose
    it for a key. With a repartition it is always the one that routers choose.
    """

    source: str
    id_column: str = "id"
    id_type: IdType | None = None
    time_column: str = "time"
    partition_column: str = "partition"
    partition_by: Partitioner | None = None
    before: datetime | None = None
    warehouse: str | None = None

    @cached_property
    def table(self) -> TableTarget | None:
        """Return the table of a source iceberg:NAME or delta:NAME."""
        return TableTarget.parse(self.source, self.warehouse)


@dataclass(frozen=True, kw_only=True)
class BootstrapResult:
    """The number of `records` read, and of `ids` written.

    `without_id` of the records have no id; `out_of_time` are older than the window, or not before `PastIds.before`.
    `scattered` ids are in several partitions, in each of which they count as one.
    """

    records: int
    without_id: int
    out_of_time: int
    ids: int
    scattered: int = 0


def bootstrap(
    spark: SparkSession,
    stream: DedupeStream,
    past: PastIds,
    output: Path,
    *,
    bootstrap_servers: str | None = None,
    kafka_options: Mapping[str, str] | None = None,
    spark_kafka_options: Mapping[str, str] | None = None,
) -> BootstrapResult:
    """Write the ids that the stream's window would hold now. `output` must not exist.

    Raises PipelineError if the source is not usable, Spark failed, or its executors write to other disks.
    """
    refuse_remote(spark, "bootstrap")
    output = local_output(output)
    if output.exists():
        raise RequestRefused(f"{output} exists already: choose a new directory, or remove it")
    connection = KafkaConnection.of(stream, bootstrap_servers, kafka_options, spark_kafka_options)
    count = _partition_count(connection.cluster(), stream, past)
    now = datetime.now(UTC)
    counted = Observation()
    try:
        if past.source.startswith(_TOPIC):
            found = _from_topic(spark, stream, past, connection=connection, count=count)
        else:
            found = _from_files(spark, stream.spec, past, count)
        newest = now if past.before is None else past.before
        in_time = F.col("seen_ms").between(
            _millis(now - stream.spec.store.window.max_age) + 1,
            _millis(newest) - (0 if past.before is None else 1),
        )
        has_id = F.col("id16").isNotNull()
        found = found.withColumn("seen_ms", F.least("seen_ms", F.lit(_millis(now)))).observe(
            counted,
            F.count(F.lit(1)).alias("records"),
            F.count_if(~has_id).alias("without_id"),
            F.count_if(has_id & ~in_time).alias("out_of_time"),
        )
        once = (
            found.where(has_id & in_time)
            .groupBy("partition", "id16")
            .agg(F.max("seen_ms").alias("seen_ms"))
        )
        _write(once, output)
        ids, scattered = _count(spark, output, stream) if counted.get["records"] else (0, 0)
    except (PySparkException, Py4JError) as error:
        raise PipelineError(f"{past.source}: {first_line(error)}") from error
    marker = json.dumps(_marker(stream, count), indent=2)
    (output / _MARKER).write_text(f"{marker}\n", encoding="utf-8")
    return BootstrapResult(ids=ids, scattered=scattered, **counted.get)


def _marker(stream: DedupeStream, count: int) -> dict[str, object]:
    """Return what `dedupe bootstrap` checks before it loads the files."""
    marker = {"stream": stream.shown, "inputTopic": stream.spec.input.shown, "partitions": count}
    repartition = stream.spec.repartition
    return marker if repartition is None else marker | {"repartition": repartition.by}


def _partition_count(cluster: Cluster, stream: DedupeStream, past: PastIds) -> int:
    repartition = stream.spec.repartition
    if repartition is None:
        return cluster.partition_count(stream.spec.worker_input)
    if past.partition_by is not None:
        raise RequestRefused(
            f"--partition-by is for streams without spec.repartition: here spec.repartition.by: {repartition.by} "
            "determines the partition of an id, however it was sent; omit the option"
        )
    return repartition.partitions


def _write(once: DataFrame, output: Path) -> None:
    """Write the ids in order, all or none. Raises NotShared."""
    written = Observation()
    ordered = once.repartitionByRange("partition", "id16").sortWithinPartitions("partition", "id16")
    ordered = ordered.observe(written, F.count(F.lit(1)).alias("ids"))
    ordered.write.partitionBy("partition").parquet(spark_path(output))
    try:
        check_written(output, written.get["ids"], output)
    except NotShared:
        shutil.rmtree(output)
        raise


def _count(spark: SparkSession, output: Path, stream: DedupeStream) -> tuple[int, int]:
    """Return the numbers of ids written, and of ids in several partitions.

    With a repartition the latter need no count: routers send the copies of an id to one.
    """
    written = spark.read.parquet(spark_path(output))
    if stream.spec.repartition is not None:
        return written.count(), 0
    # Each id is once in each partition.
    copies = written.groupBy("id16").agg(F.count(F.lit(1)).alias("places"))
    found = copies.agg(
        F.sum("places").alias("ids"), F.count_if(F.col("places") > 1).alias("in_several")
    )
    [row] = found.collect()
    return row["ids"] or 0, row["in_several"]


def _from_topic(
    spark: SparkSession,
    stream: DedupeStream,
    past: PastIds,
    *,
    connection: KafkaConnection,
    count: int,
) -> DataFrame:
    name, spec = past.source.removeprefix(_TOPIC), stream.spec
    if name in {spec.worker_input, *matching_topics([name], spec)} and past.before is None:
        raise RequestRefused(
            f"{name} is the stream's own input: all its records would count as delivered, and would never "
            "be output. If they were delivered up to some time, set --before TIME"
        )
    span = connection.cluster().offsets(name)
    if len(span.ends) != count and past.partition_by is None and spec.repartition is None:
        raise RequestRefused(
            f"topic {name} has {len(span.ends)} partitions and the input {count}: set how the "
            "producers choose a key's partition, with --partition-by murmur2 (Java clients) or crc32 "
            "(librdkafka)"
        )
    rows = read_range(spark, connection, span).select(
        F.col("partition").cast("int").alias("own"),
        "key",
        record_id(spec.id).alias("id16"),
        F.unix_millis("timestamp").alias("seen_ms"),
    )
    if spec.repartition is None and past.partition_by is None:
        partition = F.col("own")
    elif spec.repartition is not None and spec.repartition.by is RepartitionBy.ID:
        partition = id_partition(count, "id16")
    else:
        partition = key_partition(past.partition_by, count, "key", "id16")
    return rows.select(partition.alias("partition"), "id16", "seen_ms")


def _from_files(spark: SparkSession, spec: Spec, past: PastIds, count: int) -> DataFrame:
    file = IdFile(source=past.source, column=past.id_column, id_type=past.id_type, table=past.table)
    rows = file.rows(spark)
    check_column(rows, past.source, past.time_column, "--time-column")
    raw, id_type = file.ids(rows, spec.id)
    given = F.col(past.partition_column) if past.partition_column in rows.columns else F.lit(None)
    named = rows.select(
        raw.alias("key"),
        packed_ids(raw, id_type).alias("id16"),
        seen_ms(past.time_column, dict(rows.dtypes)[past.time_column]).alias("seen_ms"),
        given.cast("int").alias("given"),
    )
    partition = _file_partition(rows, spec, past, count)
    return named.select(partition.alias("partition"), "id16", "seen_ms")


def _file_partition(rows: DataFrame, spec: Spec, past: PastIds, count: int) -> Column:
    is_key = spec.id.from_ is IdFrom.KEY
    if spec.repartition is not None:
        return _routed_partition(spec.repartition, past, is_key, count)
    if past.partition_column in rows.columns:
        given = F.col("given")
        wrong = F.raise_error(
            F.concat(
                F.lit("partition "),
                F.coalesce(given.cast("string"), F.lit("null")),
                F.lit(f" is not in the input topic, which has {count}"),
            )
        )
        return F.when(given.between(0, count - 1), given).otherwise(wrong.cast("int"))
    if count == 1:
        return F.lit(0)
    if past.partition_by is None or not is_key:
        raise RequestRefused(
            f"{past.source} has no column {past.partition_column!r}: name it with --partition-column, or "
            "if ids are the records' keys, set how the producers choose partitions, with "
            "--partition-by murmur2 (Java clients) or crc32 (librdkafka)"
        )
    return key_partition(past.partition_by, count, "key", "id16")


def _routed_partition(repartition: Repartition, past: PastIds, is_key: bool, count: int) -> Column:
    """Return the partition that routers choose; that in a column is of another topic."""
    if repartition.by is RepartitionBy.ID:
        return id_partition(count, "id16")
    if not is_key:
        raise RequestRefused(
            f"spec.repartition.by: Key determines the partition by the records' keys, and {past.source} does not "
            "contain them: read the ids --from topic:NAME"
        )
    return key_partition(None, count, "key", "id16")


def _millis(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
