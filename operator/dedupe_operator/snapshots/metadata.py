"""A worker's checkpoint, as a DedupeSnapshot records it."""

from datetime import timedelta

from dedupe_crds.status.snapshot import PartitionSnapshot
from dedupe_crds.status.worker import CheckpointStatus


def stamped(entry: PartitionSnapshot, made: CheckpointStatus) -> PartitionSnapshot:
    """The entry of a partition with what its checkpoint says of itself."""
    return entry.model_copy(
        update={
            "input_topic_id": made.input_topic_id,
            "output_topic_id": made.output_topic_id,
            "input_offset": made.input_offset,
            "output_position": made.output_position,
            "keys": made.keys,
            "window": timedelta(seconds=round(made.window_seconds)),
            "bytes": made.bytes,
        }
    )
