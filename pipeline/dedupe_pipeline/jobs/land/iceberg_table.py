"""Append batches to an Iceberg table, each exactly once.

A commit of Iceberg is a compare-and-set of the table's metadata by its catalog. So the files of a batch are written
first, as compaction writes its files, and are no part of the table yet. Then the metadata is read, the offsets in it
are compared with those that the batch follows, and rows and new offsets are added to just this metadata. If anything
else was committed meanwhile, the commit fails, and both steps are repeated. `AppendFiles` alone, which Spark's own
writer uses, would repeat the commit without the comparison.

The offsets are in the summary of each snapshot, which a rollback reverts with the rows, and in a property of the table,
which is there when the snapshots have expired. Another property has the offsets before the first batch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # has no annotations
from pyspark.sql import DataFrame, SparkSession

from dedupe_pipeline.errors import LandingOvertaken, NotShared, PipelineError, first_line
from dedupe_pipeline.jobs.land.landed_offsets import PROPERTY, LandedOffsets
from dedupe_pipeline.jobs.land.table import LandingTable, quote

_START: Final = "dedupestream.start"
_ATTEMPTS: Final = 20
_CONFLICT: Final = "org.apache.iceberg.exceptions.CommitFailedException"


class IcebergTable(LandingTable):
    """A table of the catalog that is the first part of its name."""

    def __init__(self, spark: SparkSession, parts: Sequence[str]) -> None:
        super().__init__(spark, ".".join(map(quote, parts)))
        self._catalog, *self._path = parts
        self._jvm: Any = spark._jvm  # noqa: SLF001 (Iceberg has no Python API in Spark)

    def landed(self) -> LandedOffsets | None:
        """Return the offsets of the present snapshot."""
        return _landed(self._load().newTransaction().startMetadata())

    def append(
        self,
        rows: DataFrame,
        before: LandedOffsets,
        after: LandedOffsets,
        admit: Callable[[], None],
    ) -> None:
        """Write the files of a batch, then commit them with its offsets."""
        table = self._load()
        files = self._write(table, self.fitted(rows))
        self._check_shared(table, files)
        admit()
        self._commit(table, files, before, after)

    def compact(self) -> None:
        """Rewrite small files, and let snapshots expire as the table's properties say."""
        catalog, table = quote(self._catalog), ".".join(map(quote, self._path))
        for procedure in ("rewrite_data_files", "expire_snapshots"):
            self._spark.sql(f"CALL {catalog}.system.{procedure}(table => '{table}')")

    def _create(self, columns: str, partition_by: Sequence[str], start: LandedOffsets) -> None:
        if self._spark.catalog.tableExists(self.name):
            return
        namespace = ".".join(map(quote, [self._catalog, *self._path[:-1]]))
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        partitions = ", ".join(["days(`timestamp`)", *partition_by])
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING iceberg PARTITIONED BY ({partitions}) "
            f"TBLPROPERTIES ('{PROPERTY}' = '{start.to_json()}', '{_START}' = '{start.to_json()}')"
        )

    def _adopt(self, start: LandedOffsets) -> None:
        self._commit(self._load(), (), None, start)

    def _load(self) -> Any:  # noqa: ANN401 (an object of Java)
        session = self._spark._jsparkSession  # noqa: SLF001
        return self._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, self.name)

    def _write(self, table: Any, rows: DataFrame) -> list[Any]:  # noqa: ANN401
        """Write files that no snapshot has yet, as `rewrite_data_files` does."""
        name = f"dedupestream-{uuid4()}"
        cache = self._jvm.org.apache.iceberg.spark.SparkTableCache.get()
        coordinator = self._jvm.org.apache.iceberg.spark.FileRewriteCoordinator.get()
        cache.add(name, table)
        try:
            rows.write.format("iceberg").options(
                **{"rewritten-file-scan-task-set-id": name, "fanout-enabled": "true"}
            ).mode("append").save(name)
            return list(coordinator.fetchNewFiles(table, name))
        finally:
            coordinator.clearRewrite(table, name)
            cache.remove(name)

    def _check_shared(self, table: Any, files: Sequence[Any]) -> None:  # noqa: ANN401
        """Raise NotShared if the driver does not find the executors' files."""
        for file in files:
            if not table.io().newInputFile(file.location()).exists():
                raise NotShared(
                    f"{self.name}: an executor has written {file.location()}, and the driver does not find it. The "
                    "table must be on storage that all machines share. Nothing was committed"
                )

    def _commit(
        self,
        table: Any,  # noqa: ANN401
        files: Sequence[Any],
        before: LandedOffsets | None,
        after: LandedOffsets,
    ) -> None:
        for _ in range(_ATTEMPTS):
            transaction = table.newTransaction()  # reads the present metadata
            base = transaction.startMetadata()
            if (found := _landed(base)) != before:
                raise LandingOvertaken.of(self.name, found.to_json() if found else None)
            append = transaction.newAppend()
            for file in files:
                append.appendFile(file)
            append.set(PROPERTY, after.to_json()).commit()
            properties = transaction.updateProperties().set(PROPERTY, after.to_json())
            (properties if before else properties.set(_START, after.to_json())).commit()
            try:
                # Not commitTransaction(), which would add the same to metadata that was not compared.
                table.operations().commit(base, transaction.currentMetadata())
            except Py4JJavaError as error:
                if error.java_exception.getClass().getName() != _CONFLICT:
                    raise
                last = error
            else:
                return
        raise PipelineError(
            f"{self.name}: others have committed each time before this process, {_ATTEMPTS} times: {first_line(last)}"
        )


def _landed(metadata: Any) -> LandedOffsets | None:  # noqa: ANN401
    """Return the offsets in the newest snapshot that has some, or in a property."""
    oldest = None
    for oldest in _ancestors(metadata):
        if text := _summary(oldest).get(PROPERTY):
            return LandedOffsets.from_json(text)
    batches = [s.sequenceNumber() for s in metadata.snapshots() if PROPERTY in _summary(s)]
    # Rows of CREATE OR REPLACE TABLE … AS SELECT have no older snapshot either, but are younger than the batches.
    is_rolled_back = (
        batches and oldest and oldest.parentId() is None and oldest.sequenceNumber() < min(batches)
    )
    text = metadata.properties().get(_START if is_rolled_back else PROPERTY)
    return LandedOffsets.from_json(text) if text else None


def _summary(snapshot: Any) -> Mapping[str, str]:  # noqa: ANN401
    return snapshot.summary() or {}


def _ancestors(metadata: Any) -> Iterator[Any]:  # noqa: ANN401
    snapshot = metadata.currentSnapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parentId()
        snapshot = None if parent is None else metadata.snapshot(parent)
