"""Model of a sample of the input's keys, a part of a worker's GET /status."""

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class KeySample(BaseModel):
    """A sample of the newest records of a partition, and of their keys."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )

    partitions: int = Field(description="Partition count of the topic.")
    records: int = Field(default=0, description="Records in the sample; older ones weigh less.")
    without_key: int = Field(default=0, description="Records without a key.")
    fits: dict[str, int] = Field(
        default_factory=dict,
        description="By partitioner: the records whose partition follows from their key by it.",
    )
