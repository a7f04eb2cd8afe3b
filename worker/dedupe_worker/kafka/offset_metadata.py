"""The metadata of a committed input offset: which topics it is of.

    <output topic's id>:<output position>:<input topic's id>

The loop commits it with each offset, in both delivery modes. The output position is there without transactions only:
all output before it is of input before the offset (dedup/uncommitted_output.py). The releases before wrote the first
two parts, and that without transactions only; they ignore what is written here.

A topic id is base64, so it has no colon. An offset without the input topic's id was committed by an earlier release,
or set by a user.
"""

from dataclasses import dataclass

_PARTS = 3


@dataclass(frozen=True, slots=True)
class OffsetMetadata:
    """The parts of the layout above; an id is empty where it is not known."""

    output_topic: str = ""
    position: int | None = None
    input_topic: str = ""


def encode_metadata(output_topic: str, input_topic: str, position: int | None) -> str:
    """Return the metadata for an offset commit.

    >>> encode_metadata("Ab1", "In1", 7), encode_metadata("Ab1", "In1", None)
    ('Ab1:7:In1', 'Ab1::In1')
    """
    return f"{output_topic}:{'' if position is None else position}:{input_topic}"


def decode_metadata(text: str | None) -> OffsetMetadata:
    """Decode the metadata of any release; what cannot be read is not known.

    >>> decode_metadata("Ab1:7")
    OffsetMetadata(output_topic='Ab1', position=7, input_topic='')
    """
    parts = (text or "").split(":")
    if len(parts) not in {_PARTS - 1, _PARTS}:
        return OffsetMetadata()
    output_topic, position, *rest = parts
    known = int(position) if position.isascii() and position.isdecimal() else None
    return OffsetMetadata(output_topic, known, rest[0] if rest else "")
