"""The input of a worker, as its loop and its commits use it."""

from typing import Protocol

from dedupe_kafka.offsets import LastRead
from dedupe_worker.kafka.consumer import Reader


class Source(Reader, Protocol):
    """The part of `PartitionReader` that the loop and its commits use."""

    @property
    def topic(self) -> str: ...  # noqa: D102
    @property
    def next_offset(self) -> int: ...  # noqa: D102
    @property
    def last_read(self) -> LastRead: ...  # noqa: D102
    def end_offset(self) -> int | None: ...  # noqa: D102
    def group_metadata(self) -> object: ...  # noqa: D102
    def commit(self, next_offset: int, metadata: str) -> None: ...  # noqa: D102
