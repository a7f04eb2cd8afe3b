"""A router's committed input offset: its metadata, and its leader epoch.

    <input topic's id>:<epoch>[~<last read>]

Routers commit it in the transaction of the records, and the controller reads it. A release before the epochs wrote the
id alone: that is epoch 0. After ~ stands the offset after the last record that was read, if the committed offset is
further, after markers of transactions: the leader epoch that is committed is of that record (docs/decisions/0055). A
release before takes the epoch for 0 then.
"""

from typing import Final, NamedTuple

from confluent_kafka import TopicPartition

from dedupe_kafka.offsets import NOTHING_READ, LastRead, Place

_READ: Final = "~"


class RoutedOffset(NamedTuple):
    """The topic's id, "" if it is not known, the epoch, and the last record's end.

    That end is None where it is the offset itself.
    """

    topic_id: str
    epoch: int
    read_end: int | None = None


def encode_routed(topic_id: str, epoch: int) -> str:
    """Return the metadata for an offset commit.

    >>> encode_routed("In1", 2)
    'In1:2'
    """
    return f"{topic_id}:{epoch}"


def decode_routed(metadata: str | None) -> RoutedOffset:
    """Decode the metadata of any release.

    >>> decode_routed("In1:2~57")
    RoutedOffset(topic_id='In1', epoch=2, read_end=57)
    >>> decode_routed("In1:2")[:2], decode_routed("In1")[:2], decode_routed(None)[:2]
    (('In1', 2), ('In1', 0), ('', 0))
    """
    topic_id, _, rest = (metadata or "").partition(":")
    epoch, _, read_end = rest.partition(_READ)
    return RoutedOffset(
        topic_id,
        int(epoch) if epoch.isdecimal() else 0,
        int(read_end) if read_end.isdecimal() else None,
    )


def routed_offset(
    place: Place, offset: int, topic_id: str, epoch: int, read: LastRead
) -> TopicPartition:
    """Return the input offset to commit, with the last record before it.

    >>> at = routed_offset(("in", 0), 60, "In1", 2, LastRead(57, 4))
    >>> at.metadata, at.leader_epoch, routed_up_to(at)
    ('In1:2~57', 4, LastRead(end=57, epoch=4))
    """
    metadata = encode_routed(topic_id, epoch)
    if not read.is_known:
        return TopicPartition(*place, offset, metadata)
    if read.end < offset:
        metadata += f"{_READ}{read.end}"
    return TopicPartition(*place, offset, metadata, read.epoch)


def routed_up_to(committed: TopicPartition) -> LastRead:
    """Return the last record before a committed offset, as far as it is known."""
    epoch = -1 if committed.leader_epoch is None else committed.leader_epoch
    if epoch < 0:
        return NOTHING_READ
    read_end = decode_routed(committed.metadata).read_end
    return LastRead(committed.offset if read_end is None else read_end, epoch)
