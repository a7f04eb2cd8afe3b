"""Python that Spark's executors run for a column.

Spark sends these functions by name, so executors import this package, from the archive that `dedupe_pipeline.package`
builds. Invariant: it needs only the packages that `dedupe_pipeline.package` names.
"""
