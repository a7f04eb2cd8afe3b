"""Convert a checkpoint to a DedupeSnapshot's entry, and that to annotations.

The snapshot runner and the providers call it.
"""

from datetime import timedelta

from dedupe_crds.spec.stream import GROUP
from dedupe_crds.status.snapshot import PartitionSnapshot
from dedupe_crds.status.worker import CheckpointStatus


def with_checkpoint(entry: PartitionSnapshot, checkpoint: CheckpointStatus) -> PartitionSnapshot:
    """Return a partition's entry with the metadata of its checkpoint."""
    return entry.model_copy(
        update={
            "input_topic_id": checkpoint.input_topic_id,
            "output_topic_id": checkpoint.output_topic_id,
            "input_offset": checkpoint.input_offset,
            "output_position": checkpoint.output_position,
            "keys": checkpoint.keys,
            "window": timedelta(seconds=round(checkpoint.window_seconds)),
            "bytes": checkpoint.bytes,
        }
    )


def checkpoint_annotations(entry: PartitionSnapshot) -> dict[str, str]:
    """Return the checkpoint's metadata as annotations; unknown values are left out."""
    given = {
        "partition": entry.partition,
        "input-topic-id": entry.input_topic_id,
        "output-topic-id": entry.output_topic_id,
        "input-offset": entry.input_offset,
        "output-position": entry.output_position,
        "keys": entry.keys,
    }
    return {f"{GROUP}/{name}": str(value) for name, value in given.items() if value is not None}
