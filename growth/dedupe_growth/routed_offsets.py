"""The metadata of a router's committed input offset: topic id and epoch.

    <input topic's id>:<epoch>

Routers commit it in the transaction of the records, and the controller reads it. A release before the epochs wrote the
id alone: that is epoch 0.
"""

from typing import NamedTuple


class RoutedOffset(NamedTuple):
    """The topic's id, "" if it is not known, and the epoch."""

    topic_id: str
    epoch: int


def encode_routed(topic_id: str, epoch: int) -> str:
    """Return the metadata for an offset commit.

    >>> encode_routed("In1", 2)
    'In1:2'
    """
    return f"{topic_id}:{epoch}"


def decode_routed(metadata: str | None) -> RoutedOffset:
    """Decode the metadata of any release.

    >>> decode_routed("In1:2"), decode_routed("In1"), decode_routed(None)
    (RoutedOffset(topic_id='In1', epoch=2), RoutedOffset(topic_id='In1', epoch=0), RoutedOffset(topic_id='', epoch=0))
    """
    topic_id, _, epoch = (metadata or "").partition(":")
    return RoutedOffset(topic_id, int(epoch) if epoch.isdecimal() else 0)
