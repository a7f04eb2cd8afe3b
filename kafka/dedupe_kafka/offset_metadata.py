"""The metadata of a worker's committed input offset: topics and passed epoch.

    <output topic's id>:<output position>:<input topic's id>[:[<epoch>-<cut>][~<last read>]][@<take-over>]

The loop commits it with each offset, in both delivery modes. Without transactions all output before the position is of
input before the offset (dedup/uncommitted_output.py). With transactions ^ stands before it: the output had come so far
before the transaction, and one that ends before it has lost records (docs/decisions/0059). The releases before wrote
the first two parts, and that without transactions only; they ignore what is written here.

The fourth part is of streams that have grown: the epoch whose mark this worker has passed, and the worker's own output
position at that border (docs/decisions/0034). Without it the epoch is 0. After ~ stands the offset after the last
record that was read, if the committed offset is further, after markers of transactions: the leader epoch that is
committed is of that record (docs/decisions/0055). Releases before that ignore a fourth part with it. What follows the
last @ is the token of the worker that committed (docs/decisions/0026).

A topic id is base64, so it has no colon. An offset without the input topic's id was committed by an earlier release,
or set by a user.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from confluent_kafka import TopicPartition

from dedupe_kafka.offsets import LastRead, Place

_FEWEST_PARTS: Final = 2
_MOST_PARTS: Final = 4
_SEPARATOR: Final = "@"
_READ: Final = "~"
_REACHED: Final = "^"


class Cut(NamedTuple):
    """The epoch that a worker has passed, and its output position at that border."""

    epoch: int
    position: int


@dataclass(frozen=True, slots=True)
class OffsetMetadata:
    """The parts of the layout above; an id is empty where it is not known.

    `reached` is the output position before a transaction.
    """

    output_topic: str = ""
    position: int | None = None
    input_topic: str = ""
    cut: Cut | None = None
    read_end: int | None = None
    reached: int | None = None


def encode_metadata(
    output_topic: str, input_topic: str, position: int | None, cut: Cut | None = None
) -> str:
    """Return the metadata for an offset commit.

    >>> encode_metadata("Ab1", "In1", 7), encode_metadata("Ab1", "In1", None)
    ('Ab1:7:In1', 'Ab1::In1')
    >>> encode_metadata("Ab1", "In1", None, Cut(epoch=2, position=40))
    'Ab1::In1:2-40'
    """
    passed = "" if cut is None else f":{cut.epoch}-{cut.position}"
    return f"{output_topic}:{'' if position is None else position}:{input_topic}{passed}"


def decode_metadata(text: str | None) -> OffsetMetadata:
    """Decode the metadata of any release, without its token.

    >>> decode_metadata("Ab1:7")
    OffsetMetadata(output_topic='Ab1', position=7, input_topic='', cut=None, read_end=None, reached=None)
    >>> decode_metadata("Ab1:^7:In1").reached
    7
    >>> decode_metadata("Ab1::In1:2-40").cut
    Cut(epoch=2, position=40)
    >>> decode_metadata("Ab1::In1:~57").read_end
    57
    """
    parts = (text or "").split(":")
    if not _FEWEST_PARTS <= len(parts) <= _MOST_PARTS:
        return OffsetMetadata()
    output_topic, position, input_topic, passed = [*parts, "", ""][:_MOST_PARTS]
    passed, _, read_end = passed.partition(_READ)
    epoch, _, at = passed.partition("-")
    cut = Cut(int(epoch), int(at)) if _is_number(epoch) and _is_number(at) else None
    _, _, reached = position.partition(_REACHED)
    return OffsetMetadata(
        output_topic,
        int(position) if _is_number(position) else None,
        input_topic,
        cut,
        int(read_end) if _is_number(read_end) else None,
        int(reached) if _is_number(reached) else None,
    )


def with_reached(metadata: str, position: int) -> str:
    """Return the metadata of a transaction with the output position before it.

    >>> with_reached("Ab1::In1:2-40", 7)
    'Ab1:^7:In1:2-40'
    """
    output_topic, separator, rest = metadata.partition("::")
    return f"{output_topic}:{_REACHED}{position}:{rest}" if separator else metadata


def input_offset(
    place: Place,
    offset: int,
    metadata: str,
    read: LastRead,
    *,
    add_token: Callable[[str], str] = str,
) -> TopicPartition:
    """Return the input offset to commit, with the epoch of the last record before it.

    `read` may be further than `offset`: the epoch of a later record proves what is before it as well.

    >>> at = input_offset(("in", 0), 60, "Ab1::In1", LastRead(57, 4))
    >>> at.metadata, at.leader_epoch
    ('Ab1::In1:~57', 4)
    """
    *first, passed = [*metadata.split(":"), ""][:_MOST_PARTS]
    is_labelled = metadata.count(":") in {_MOST_PARTS - 2, _MOST_PARTS - 1}
    is_behind = read.is_known and read.end < offset
    if is_labelled:
        passed = passed.partition(_READ)[0] + (f"{_READ}{read.end}" if is_behind else "")
        metadata = ":".join([*first, passed] if passed else first)
    text = add_token(metadata)
    if not read.is_known or (is_behind and not is_labelled):
        return TopicPartition(*place, offset, text)
    return TopicPartition(*place, offset, text, read.epoch)


def split_token(metadata: str | None) -> tuple[str | None, str | None]:
    """Return the metadata of an offset commit without its token, and the token.

    >>> split_token("Ab1:7@3-1700000000000"), split_token("Ab1:7"), split_token(None)
    (('Ab1:7', '3-1700000000000'), ('Ab1:7', None), (None, None))
    """
    text, separator, token = (metadata or "").rpartition(_SEPARATOR)
    if not separator or not token.partition("-")[0].isdecimal():
        return metadata, None
    return text, token


def with_token(metadata: str, token: str) -> str:
    """Return the metadata with the token of the worker that commits it.

    >>> with_token("Ab1:7", "3-1700000000000")
    'Ab1:7@3-1700000000000'
    """
    return f"{metadata}{_SEPARATOR}{token}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
