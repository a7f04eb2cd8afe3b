"""`DedupeStreamPartitions`: the status of further partitions of a large stream.

An object of Kubernetes may have 1.5 MiB. So a stream's status lists its first partitions, and each further group of
as many has an object. The operator writes them, and `kubectl dedupe` reads them.
"""

from typing import Final, Literal

from pydantic import Field

from dedupe_crds.base import Model
from dedupe_crds.names import ObjectName
from dedupe_crds.spec.metadata import Metadata
from dedupe_crds.status.stream import PartitionStatus

KIND: Final = "DedupeStreamPartitions"
GROUP_SIZE: Final = 100
"""Partitions that a stream's status lists, and that each further object has.

The entry of a partition has 0.8 kB while it is well, and some 7 kB with the longest texts.
"""


class PartitionsStatus(Model):
    """The observed state of a group of partitions."""

    partitions_ready: str | None = Field(
        default=None, description="Ready and total partitions of the group, such as 99/100."
    )
    # Replaced as a whole, so that the API server does not keep the owner of each field of each entry.
    partitions: list[PartitionStatus] = Field(
        default=[],
        description="Status of each partition and its worker, with the fields of status.partitions of a DedupeStream.",
    )


class PartitionsMetadata(Metadata):
    """The fields of the metadata of a group."""

    name: ObjectName = Field(description="Name of the stream, '-' and the first partition.")


class DedupeStreamPartitions(Model):
    """Status of further partitions of a large DedupeStream; the operator writes it."""

    api_version: Literal["dedupestream.io/v1alpha1"] = Field(description="API version.")
    kind: Literal["DedupeStreamPartitions"] = Field(description="Kind of the object.")
    metadata: PartitionsMetadata = Field(description="Name and namespace.")


def group_of(partition: int) -> int:
    """Return the first partition of a partition's group.

    >>> group_of(7), group_of(199), group_of(200)
    (0, 100, 200)
    """
    return partition - partition % GROUP_SIZE
