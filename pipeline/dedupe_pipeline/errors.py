"""Errors of the Spark jobs, below `StreamError`.

Each message names the cause, the place and the remedy.

Errors of Kafka and of the topics are in `dedupe_kafka.errors`.
"""

from typing import ClassVar

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # has no annotations

from dedupe_crds.exit_status import ExitStatus
from dedupe_kafka.errors import StreamError


class PipelineError(StreamError):
    """A job cannot start or cannot continue.

    `status` is the exit code of a command that ends with it.
    """

    status: ClassVar[ExitStatus] = ExitStatus.FAILED


class RequestRefused(PipelineError):
    """An option, the manifest or a file asks for something that cannot be done."""

    status = ExitStatus.USAGE


class JavaMissing(PipelineError):
    """This machine has no Java runtime that Kafka and Spark run on."""


class JarsUnavailable(PipelineError):
    """Jars could not be downloaded from Maven Central, or differ from the locked ones."""


class NotShared(RequestRefused):
    """The executors' files are not on the file system that the driver sees."""


class LandingRefused(RequestRefused):
    """Output, checkpoint and topic do not belong together, or are in use."""


class LandingOvertaken(PipelineError):
    """Another process has landed the topic in the table meanwhile."""

    @classmethod
    def of(cls, table: str, found: str | None) -> "LandingOvertaken":
        """Return the error for a table that has these offsets."""
        return cls(
            f"{table}: another process lands into this table, or it was rolled back: it has {found or 'no offsets'}. "
            "This process has added nothing to that; run one process only, it continues there"
        )


class AuditNotContinued(RequestRefused):
    """A directory of `audit --remember` is of other topics, or in use."""


class NothingCommitted(RequestRefused):
    """The consumer group has committed no offset of the input."""


class JobRefused(RequestRefused):
    """A job cannot run as its file says, or not on the existing table."""


class DatabaseFailed(PipelineError):
    """PostgreSQL cannot be reached or refused a statement; no batch is half written."""


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, as the rest may be a Java stack trace.

    Of an error in Java it is that of the first cause: the others say only that a job was ended.
    """
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.toString()).strip().splitlines()[0]
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
