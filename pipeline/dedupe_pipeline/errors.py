"""Errors of the jobs. Each message says what to do next.

Errors of Kafka itself are those of `dedupe_kafka.errors`.
"""

from dedupe_kafka.errors import StreamError


class PipelineError(StreamError):
    """A job cannot start or cannot continue; the message names the cause, the place and the remedy."""


class LandingRefused(PipelineError):
    """The output directory and the checkpoint do not belong together, or are in use."""


class JobRefused(PipelineError):
    """A job can't run as its file says, or not on the table that is there."""


class DatabaseFailed(PipelineError):
    """PostgreSQL can't be reached, or has refused what it was told. Nothing is half done in it."""


class RecordsExpired(PipelineError):
    """The topic no longer has records that a job has not read yet."""
