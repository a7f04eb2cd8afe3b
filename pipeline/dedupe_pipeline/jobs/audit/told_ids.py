"""Read ids that a user names: delivered before the stream, or forgotten.

The job `audit` calls it. No topic of the stream shows them, so they are excused by name, not by guess.
"""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.topics import IdFrom, IdSource
from dedupe_ids.column_ids import IdType
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.jobs.audit.identity import ident_of, with_identity
from dedupe_pipeline.jobs.audit.parallel import read_tasks
from dedupe_pipeline.jobs.id_files import IdFile
from dedupe_pipeline.runtime.portable import parallelism
from dedupe_pipeline.source import read_range

_TOPIC = "topic:"


@dataclass(frozen=True, kw_only=True)
class ToldIds:
    """Places of such ids.

    `known` is topic:NAME, or a path of Parquet or CSV files with `id_column`, as `dedupe bootstrap` reads them;
    `id_type` is the type of the ids in the stream's JSON, if the column does not tell. Rows without an id count for
    nothing.
    `forgotten` is a text file with a line for each time that an id was forgotten.
    """

    known: str | None = None
    id_column: str = "id"
    id_type: IdType | None = None
    forgotten: Path | None = None

    def known_ids(
        self, spark: SparkSession, connection: KafkaConnection, source: IdSource
    ) -> DataFrame | None:
        """Return the `ident` of ids delivered before the stream.

        Raises:
            RequestRefused: the files lack the column, or can't contain such ids.
            TopicMissing: the topic is absent.
        """
        if self.known is None:
            return None
        if self.known.startswith(_TOPIC):
            offsets = connection.cluster().offsets(self.known.removeprefix(_TOPIC))
            tasks = read_tasks([offsets], parallelism(spark))
            records = with_identity(read_range(spark, connection, offsets, tasks=tasks), source)
            return records.where("has_id").select("ident").distinct()
        _check_text(source, "--known")
        file = self._file(self.known)
        rows = file.rows(spark)
        raw, id_type = file.ids(rows, source)
        ids = rows.select(raw.alias("id")).where(F.col("id").isNotNull())
        return ids.select(ident_of(_tagged(source, F.col("id"), id_type)).alias("ident")).distinct()

    def known_without_id(self, spark: SparkSession) -> int:
        """Return how many rows of files have no id."""
        if self.known is None or self.known.startswith(_TOPIC):
            return 0
        rows = self._file(self.known).rows(spark)
        id_ = F.col(self.id_column)
        return rows.where(id_.isNull() | (id_.cast("string") == "")).count()

    def _file(self, source: str) -> IdFile:
        return IdFile(
            source=source,
            column=self.id_column,
            id_type=self.id_type,
            type_option="--known-id-type",
            column_option="--known-id-column",
        )

    def forgotten_ids(self, spark: SparkSession, source: IdSource) -> DataFrame | None:
        """Return `ident` and `times` of the ids forgotten on request.

        Raises:
            RequestRefused: the file is not text, or the stream's ids are none.
        """
        if self.forgotten is None:
            return None
        _check_text(source, "--forgotten")
        try:
            lines = self.forgotten.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise RequestRefused(f"--forgotten {self.forgotten}: {error}") from error
        ids = [(line.strip().encode(),) for line in lines if line.strip()]
        # In JSON a text and a number are two ids; a line may mean either.
        types = tuple(IdType) if source.from_ is IdFrom.JSON_PATH else (IdType.TEXT,)
        each = F.array(*(ident_of(_tagged(source, F.col("id"), type_)) for type_ in types))
        idents = spark.createDataFrame(ids, "id BINARY").select(F.explode(each).alias("ident"))
        return idents.groupBy("ident").agg(F.count("*").alias("times"))


def _check_text(source: IdSource, option: str) -> None:
    if source.from_ is IdFrom.CONTENT:
        raise RequestRefused(
            f"{option}: spec.id.from is Content, so ids are of whole records: only --known topic:NAME has them"
        )


def _tagged(source: IdSource, text: Column, id_type: IdType) -> Column:
    """Return an id as `identity` reads it from a record: in JSON with its type."""
    if source.from_ is not IdFrom.JSON_PATH:
        return text
    return F.concat(F.lit(b"n" if id_type is IdType.NUMBER else b"s"), text)
