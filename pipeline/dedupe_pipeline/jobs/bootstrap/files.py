"""Read times from files and tables."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)


def seen_ms(column: str, kind: str) -> Column:
    """Return a time in milliseconds, of a column of this type."""
    time = F.col(column)
    if kind in {"int", "bigint"}:
        return time.cast("bigint")
    if kind != "string":
        return F.unix_millis(time.cast("timestamp"))
    number = time.rlike("^-?[0-9]+$")
    # Each branch gets only values that it can parse, because Spark may compute both.
    return F.when(number, F.when(number, time).cast("bigint")).otherwise(
        F.unix_millis(F.when(~number, time).cast("timestamp"))
    )
