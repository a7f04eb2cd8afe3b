"""What a copy of a store says of itself wherever it is kept: annotations of an object, tags of a snapshot."""

from dedupe_crds.spec.stream import GROUP
from dedupe_crds.status.snapshot import PartitionSnapshot


def stamp_annotations(entry: PartitionSnapshot) -> dict[str, str]:
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
