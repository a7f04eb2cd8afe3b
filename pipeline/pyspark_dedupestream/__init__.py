"""Register `spark.read.format("dedupestream")`.

Spark finds data sources in packages named pyspark_*.
"""

from dedupe_pipeline.datasource.source import DedupeStreamSource as DefaultSource

__all__ = ["DefaultSource"]
