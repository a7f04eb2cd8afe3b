"""Model of a sample of the input's keys, a part of a worker's GET /status."""

from pydantic import Field

from dedupe_crds.status.report import Report


class KeySample(Report):
    """A sample of the newest records of a partition, and of their keys."""

    partitions: int = Field(description="Partition count of the topic.")
    records: int = Field(default=0, description="Records in the sample; older ones weigh less.")
    without_key: int = Field(default=0, description="Records without a key.")
    fits: dict[str, int] = Field(
        default_factory=dict,
        description="By partitioner: the records whose partition follows from their key by it.",
    )
