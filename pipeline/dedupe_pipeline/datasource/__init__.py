"""The Spark data source `dedupestream`: an output topic and its chunk filters."""

from importlib.util import find_spec

if find_spec("pyspark.sql.datasource") is None:
    raise ImportError(
        "the data source dedupestream needs Spark 4.0 or newer, whose data sources can be written in Python; "
        "use dedupe_pipeline.source.read_clean, or dedupe_filters.reader without Spark"
    )
