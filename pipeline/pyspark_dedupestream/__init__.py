"""Makes `spark.read.format("dedupestream")` known: Spark looks for data sources in packages named pyspark_*."""

from dedupe_pipeline.datasource.source import DedupeStreamSource as DefaultSource

__all__ = ["DefaultSource"]
