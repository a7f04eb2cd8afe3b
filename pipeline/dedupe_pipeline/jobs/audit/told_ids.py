"""Read ids that a user names: delivered before the stream, or forgotten.

The job `audit` calls it. No topic of the stream shows them, so they are excused by name, not by guess.
"""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.topics import IdFrom, IdSource
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.jobs.audit.identity import ident_of, with_identity
from dedupe_pipeline.jobs.audit.parallel import read_tasks
from dedupe_pipeline.runtime.portable import parallelism
from dedupe_pipeline.source import read_range

_TOPIC = "topic:"
_WHOLE = {"tinyint", "smallint", "int", "bigint"}


@dataclass(frozen=True, kw_only=True)
class ToldIds:
    """Places of such ids.

    `known` is topic:NAME, or a path of Parquet or CSV files with `id_column`, as `dedupe bootstrap` reads them.
    `forgotten` is a text file with a line for each time that an id was forgotten.
    """

    known: str | None = None
    id_column: str = "id"
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
        is_csv = self.known.endswith((".csv", ".csv.gz"))
        read = spark.read
        rows = read.csv(self.known, header=True) if is_csv else read.parquet(self.known)
        kinds = dict(rows.dtypes)
        if self.id_column not in kinds:
            raise RequestRefused(
                f"{self.known} has no column {self.id_column!r}, it has {', '.join(kinds)}: name it with "
                "--known-id-column"
            )
        whole = kinds[self.id_column] in _WHOLE
        text = F.col(self.id_column).cast("string").cast("binary")
        binary = text if kinds[self.id_column] != "binary" else F.col(self.id_column)
        return rows.select(ident_of(_tagged(source, binary, whole)).alias("ident")).distinct()

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
        kinds = (False, True) if source.from_ is IdFrom.JSON_PATH else (False,)
        each = F.array(*(ident_of(_tagged(source, F.col("id"), whole)) for whole in kinds))
        idents = spark.createDataFrame(ids, "id BINARY").select(F.explode(each).alias("ident"))
        return idents.groupBy("ident").agg(F.count("*").alias("times"))


def _check_text(source: IdSource, option: str) -> None:
    if source.from_ is IdFrom.CONTENT:
        raise RequestRefused(
            f"{option}: spec.id.from is Content, so ids are of whole records: only --known topic:NAME has them"
        )


def _tagged(source: IdSource, text: Column, whole: bool) -> Column:
    """Return an id as `identity` reads it from a record: in JSON with its type."""
    if source.from_ is not IdFrom.JSON_PATH:
        return text
    return F.concat(F.lit(b"n" if whole else b"s"), text)
