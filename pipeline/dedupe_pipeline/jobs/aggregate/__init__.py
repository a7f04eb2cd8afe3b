"""Job `aggregate`: windowed counts and sums in PostgreSQL, each record once.

The idea of a path from Spark to PostgreSQL that is idempotent by the owner of each record (its partition and offset) is
Tapjoy's.
"""

from dedupe_pipeline.jobs.aggregate.job import AggregateResult, aggregate
from dedupe_pipeline.jobs.aggregate.job_file import AggregateJob, load_job
from dedupe_pipeline.jobs.aggregate.postgres_connection import Postgres

__all__ = ["AggregateJob", "AggregateResult", "Postgres", "aggregate", "load_job"]
