"""Append batches to a Delta table, each exactly once.

Delta skips a write whose transaction version (`txnVersion`) is not greater than the last one of its application id
(`txnAppId`), in the same atomic step as the commit. The id names the topic by its UUID. The version is the sum of the
offsets at which the batch begins: each of these was the end of another batch, so it is greater than the last one only
if the batch begins where the last one has ended.

The offsets behind a batch are in its entry of the table's history. What the history says after a write tells whether
Delta has skipped it.
"""

import json
from collections.abc import Callable, Sequence
from typing import Final
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dedupe_pipeline.errors import LandingOvertaken, LandingRefused
from dedupe_pipeline.jobs.land.landed_offsets import PROPERTY, LandedOffsets
from dedupe_pipeline.jobs.land.table import LandingTable, quote
from dedupe_pipeline.jobs.written_files import check_shared

_RECENT: Final = 20
_CONFLICT: Final = "ConcurrentTransaction"


class DeltaTable(LandingTable):
    """A table with a name, or with a path or URL, which contains a slash."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._path = name if "/" in name else None
        quoted = f"delta.{quote(name)}" if self._path else ".".join(map(quote, name.split(".")))
        super().__init__(spark, quoted)

    def landed(self) -> LandedOffsets | None:
        """Return the offsets in the history, or those with which the table was created."""
        if newest := self._newest_batch():
            return _of_history(newest)
        detail = self._spark.sql(f"DESCRIBE DETAIL {self.name}").select("properties").collect()
        text = detail[0]["properties"].get(PROPERTY)
        return LandedOffsets.from_json(text) if text else None

    def _newest_batch(self) -> str | None:
        """Return the metadata of the newest commit of a batch."""
        for limit in (_RECENT, None):
            shown = "" if limit is None else f" LIMIT {limit}"
            history = self._spark.sql(f"DESCRIBE HISTORY {self.name}{shown}")
            entries = history.select("operation", "userMetadata").collect()
            for entry in entries:  # the newest is the first
                if entry["operation"] == "RESTORE":
                    raise LandingRefused(
                        f"{self.name} was restored to an earlier version after the last batch, and Delta would skip "
                        "the records that it lacks; land the topic into another table"
                    )
                if _of_history(entry["userMetadata"]):
                    return str(entry["userMetadata"])
            if limit and len(entries) < limit:
                break
        return None

    def append(
        self,
        rows: DataFrame,
        before: LandedOffsets,
        after: LandedOffsets,
        admit: Callable[[], None],
    ) -> None:
        """Commit a batch, unless Delta skips it."""
        admit()  # there is no moment between the read and the commit
        # Two processes may plan the same batch: the name tells whose was committed.
        mine = json.dumps({PROPERTY: after.to_json(), "write": str(uuid4())})
        writer = (
            self.fitted(rows)
            .write.format("delta")
            .mode("append")
            .option("txnAppId", f"dedupestream-{before.topic_id}")
            .option("txnVersion", str(before.total))
            .option("userMetadata", mine)
        )
        try:
            if self._path:
                writer.save(self._path)
            else:
                writer.saveAsTable(self.name)
        except PySparkException as error:
            if _CONFLICT not in str(error):
                raise
        if (newest := self._newest_batch()) != mine:
            raise LandingOvertaken.of(self.name, newest)

    def compact(self) -> None:
        """Rewrite small files; VACUUM, which deletes the old ones, is left to users."""
        self._spark.sql(f"OPTIMIZE {self.name}")

    def _create(self, columns: str, partition_by: Sequence[str], start: LandedOffsets) -> None:
        if self._path:
            check_shared(self._spark, self._path)
        partitions = ", ".join(["`date`", *partition_by])
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING delta PARTITIONED BY ({partitions}) "
            f"{self._properties(start)}"
        )

    def _adopt(self, start: LandedOffsets) -> None:
        properties = self._properties(start).removeprefix("TBLPROPERTIES")
        self._spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES {properties}")


def _of_history(metadata: str | None) -> LandedOffsets | None:
    try:
        return LandedOffsets.from_json(json.loads(metadata or "{}")[PROPERTY])
    except (ValueError, KeyError, TypeError):
        return None  # a commit of somebody else, who may write any text
