"""What can go wrong in a job, told so that the reader knows what to do next."""


class PipelineError(Exception):
    """A job cannot run or cannot go on; the message names what, where and the way out."""


class KafkaUnreachable(PipelineError):
    """No broker answered in time. Trying again later may help."""


class TopicMissing(PipelineError):
    """A topic of the stream does not exist on this cluster."""


class LandingRefused(PipelineError):
    """The output directory and the checkpoint do not belong together, or are in use."""


class JobRefused(PipelineError):
    """A job can't run as its file says, or not on the table that is there."""


class DatabaseFailed(PipelineError):
    """PostgreSQL can't be reached, or has refused what it was told. Nothing is half done in it."""


class RecordsExpired(PipelineError):
    """The topic no longer has records that a job has not read yet."""
