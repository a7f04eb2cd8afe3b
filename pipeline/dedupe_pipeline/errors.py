"""Errors of the Spark jobs, below `StreamError`.

Each message names the cause, the place and the remedy.

Errors of Kafka and of the topics are in `dedupe_kafka.errors`.
"""

from dedupe_kafka.errors import StreamError


class PipelineError(StreamError):
    """A job cannot start or cannot continue."""


class JavaMissing(PipelineError):
    """This machine has no Java runtime that Kafka and Spark run on."""


class JarsUnavailable(PipelineError):
    """Jars could not be downloaded from Maven Central, or differ from the locked ones."""


class NotShared(PipelineError):
    """The executors' files are not on the file system that the driver sees."""


class LandingRefused(PipelineError):
    """Output, checkpoint and topic do not belong together, or are in use."""


class JobRefused(PipelineError):
    """A job cannot run as its file says, or not on the existing table."""


class DatabaseFailed(PipelineError):
    """PostgreSQL cannot be reached or refused a statement; no batch is half written."""


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, as the rest may be a Java stack trace."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
