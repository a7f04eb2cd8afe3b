"""The interface of the loop's output."""

from collections.abc import Sequence
from typing import Protocol

from confluent_kafka import Message

from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.kafka.side_records import Routed, SideRecord
from dedupe_worker.kafka.source import Source
from dedupe_worker.values import Times


class Output(Protocol):
    """The part of `PartitionOutput` that the loop uses."""

    @property
    def position(self) -> int: ...  # noqa: D102 (see PartitionOutput)
    @property
    def complete_up_to(self) -> int: ...  # noqa: D102
    @property
    def own(self) -> Sequence[OffsetRange]: ...  # noqa: D102
    def begin(self) -> None: ...  # noqa: D102
    def produce(self, records: Sequence[Message], times: Times) -> None: ...  # noqa: D102
    def route(self, routed: Sequence[Routed]) -> None: ...  # noqa: D102
    def produce_side_records(self, records: Sequence[SideRecord]) -> None: ...  # noqa: D102
    def flush(self) -> OffsetRange | None: ...  # noqa: D102
    def commit(self, next_offset: int, source: Source) -> None: ...  # noqa: D102
    def abort(self) -> None: ...  # noqa: D102
