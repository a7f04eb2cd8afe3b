"""The metadata that the worker writes to side topics in each transaction.

The loop calls the writers. For the output records of one transaction, the owner log says which input records they were
(owner_log.py), and the filter which values they have (dedupe_filters). Invariant: both are in the transaction, so there
is never metadata about records that were aborted. A transaction may be without it, if the broker was too slow to report
the offsets of its records, or others have written between them: then the owners are unknown, and readers of filters
read all of its records.
"""

from collections.abc import Sequence
from typing import Protocol

from confluent_kafka import Message

from dedupe_crds.spec.stream import Spec
from dedupe_crds.spec.topics import Delivery
from dedupe_filters.builder import FilterBuilder
from dedupe_filters.values import FilterSource
from dedupe_filters.wire_format import Origin
from dedupe_kafka.offsets import OffsetRange
from dedupe_kafka.side_topics import filters_topic, needs_owner_log, owners_topic
from dedupe_worker.kafka.side_records import SideRecord
from dedupe_worker.origins import Origins
from dedupe_worker.side_topics.owner_log import OwnerLogWriter
from dedupe_worker.values import Offsets


class SideTopicWriter(Protocol):
    """A writer of one kind of metadata.

    Call `add` for each batch that is passed on, then `records` to get what to write, then `clear`.
    """

    def add(self, passed: Sequence[Message], owners: Offsets) -> None:
        """Add records that are passed on, with their owners as numbers of 8 bytes."""

    def records(self, written: OffsetRange) -> list[SideRecord]:
        """Return what to write about all of them; `written` are their output offsets."""

    def clear(self) -> None:
        """Begin the next transaction."""


class FilterWriter:
    """A `SideTopicWriter` of filters of the records' values."""

    def __init__(
        self, topic: str, collector: FilterBuilder, transactional_id: str | None = None
    ) -> None:
        """Take the topic; without a `transactional_id` there are no transactions."""
        self._topic = topic
        self._collector = collector
        self._origin = Origin.APPENDED if transactional_id is None else Origin.TRANSACTION
        # It shows readers which transactions are of one producer, see range_plan.py.
        self._key = transactional_id.encode() if transactional_id else None

    def add(self, passed: Sequence[Message], owners: Offsets) -> None:  # noqa: ARG002, D102 (see SideTopicWriter)
        self._collector.add(passed)

    def records(self, written: OffsetRange) -> list[SideRecord]:  # noqa: D102
        made = self._collector.finish(written.low, written.end - 1, self._origin)
        return [SideRecord(self._topic, self._key, made.value, made.timestamp_ms)]

    def clear(self) -> None:  # noqa: D102
        self._collector.clear()


def side_topic_writers(
    spec: Spec,
    output_topic_id: str,
    input_topic: str = "",
    origins: Origins | None = None,
    *,
    transactional_id: str = "",
) -> list[SideTopicWriter]:
    """Return the writers that a stream needs.

    `origins` are of its routed records, `transactional_id` is that of the partition's producer.
    """
    output = spec.output
    writers: list[SideTopicWriter] = []
    if needs_owner_log(spec):
        topic = owners_topic(output.topic)
        writers.append(OwnerLogWriter(topic, output_topic_id, input_topic, origins=origins))
    if output.filter is not None:
        collector = FilterBuilder(
            FilterSource.of(output.filter), output.filter.size_bytes, output_topic_id
        )
        exactly_once = spec.delivery is Delivery.EXACTLY_ONCE
        writers.append(
            FilterWriter(
                filters_topic(output.topic), collector, transactional_id if exactly_once else None
            )
        )
    return writers
