"""What is written beside the output, once a transaction and in it: notes about the records that it adds.

A chunk is the output records of one transaction. Its note about owners says which input records they were
(owner_notes.py), its filter which values they can have (dedupe_filters). Both are in the transaction, so there is never
one about records that were given up. A chunk may be without, where the broker was too slow to say which offsets its
records have, or others have written between them: then owners are unknown, and readers read it as it is.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from confluent_kafka import Message

from dedupe_crds.spec.stream import Spec
from dedupe_crds.spec.topics import Delivery
from dedupe_filters.builder import Collector
from dedupe_filters.values import FilterSource
from dedupe_filters.wire_format import Origin
from dedupe_kafka.side_topics import filters_topic, notes_owners, owners_topic
from dedupe_worker.kafka.producer import Note, Span
from dedupe_worker.side_topics.owner_notes import encode_notes
from dedupe_worker.values import Offsets


class ChunkLog(Protocol):
    """`add` what is passed on, batch by batch, then make the `notes` and `clear`."""

    def add(self, passed: Sequence[Message], offsets: Offsets) -> None:
        """Records that are passed on, with their offsets in the input."""

    def notes(self, span: Span) -> list[Note]:
        """What to write about all of them, which have the output offsets of `span`."""

    def clear(self) -> None:
        """Begin the next chunk."""


class OwnersLog:
    """Notes about owners."""

    def __init__(self, topic: str, output_topic_id: str) -> None:
        self._topic = topic
        self._key = output_topic_id.encode()
        self._offsets: list[Offsets] = []

    def add(self, passed: Sequence[Message], offsets: Offsets) -> None:  # noqa: ARG002, D102 (see ChunkLog)
        self._offsets.append(offsets)

    def notes(self, span: Span) -> list[Note]:  # noqa: D102
        offsets = np.concatenate(self._offsets)
        return [Note(self._topic, self._key, value) for value in encode_notes(span.first, offsets)]

    def clear(self) -> None:  # noqa: D102
        self._offsets.clear()


class FiltersLog:
    """Filters of the values that records have."""

    def __init__(self, topic: str, collector: Collector, origin: Origin) -> None:
        self._topic = topic
        self._collector = collector
        self._origin = origin

    def add(self, passed: Sequence[Message], offsets: Offsets) -> None:  # noqa: ARG002, D102 (see ChunkLog)
        self._collector.add(passed)

    def notes(self, span: Span) -> list[Note]:  # noqa: D102
        made = self._collector.finish(span.first, span.end - 1, self._origin)
        return [Note(self._topic, None, made.value, made.timestamp_ms)]

    def clear(self) -> None:  # noqa: D102
        self._collector.clear()


def logs_of(spec: Spec, output_topic_id: str) -> list[ChunkLog]:
    """What a stream's worker writes."""
    output = spec.output
    logs: list[ChunkLog] = []
    if notes_owners(spec):
        logs.append(OwnersLog(owners_topic(output.topic), output_topic_id))
    if output.filter is not None:
        collector = Collector(
            FilterSource.of(output.filter), output.filter.size_bytes, output_topic_id
        )
        exactly_once = spec.delivery is Delivery.EXACTLY_ONCE
        origin = Origin.TRANSACTION if exactly_once else Origin.APPENDED
        logs.append(FiltersLog(filters_topic(output.topic), collector, origin))
    return logs
