"""A worker's checkpoint, as a DedupeSnapshot records it."""

from datetime import timedelta

from dedupe_crds.spec.stream import GROUP
from dedupe_crds.status.snapshot import PartitionSnapshot
from dedupe_crds.status.worker import CheckpointStatus


def with_checkpoint(entry: PartitionSnapshot, made: CheckpointStatus) -> PartitionSnapshot:
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


def checkpoint_annotations(entry: PartitionSnapshot) -> dict[str, str]:
    """The stamp as names and texts; what is not known is left out."""
    given = {
        "partition": entry.partition,
        "input-topic-id": entry.input_topic_id,
        "output-topic-id": entry.output_topic_id,
        "input-offset": entry.input_offset,
        "output-position": entry.output_position,
        "keys": entry.keys,
    }
    return {f"{GROUP}/{name}": str(value) for name, value in given.items() if value is not None}
