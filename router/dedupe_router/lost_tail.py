"""Tell an input partition that has lost records, and continue it once accepted.

A committed offset carries the leader epoch of the last record before it (docs/decisions/0055). Where a router begins,
the client library asks the leader whether that record is still in the log. Invariant: only the answer to a start is a
loss, because what was read since may not be committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog
from confluent_kafka import KafkaError

from dedupe_crds.spec.input import AcceptedTruncation
from dedupe_kafka.errors import StreamError
from dedupe_kafka.fetch_errors import InputTruncated, parting_of, truncated
from dedupe_kafka.offsets import LastRead, Place
from dedupe_router.errors import OffsetOutOfRange
from dedupe_router.owned import Owned
from dedupe_router.start import Warn

OUT_OF_RANGE: Final = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}  # noqa: SLF001 (public names)
)
_REASON: Final = InputTruncated.__name__

log = structlog.get_logger()


def _warn_nobody(_reason: str, _message: str) -> None:
    """Report nothing."""


@dataclass(slots=True)
class LostTails:
    """The losses of inputs; after those that are `accepted` the input continues."""

    accepted: Sequence[AcceptedTruncation] = ()
    warn: Warn = _warn_nobody
    _continued: dict[Place, str] = field(default_factory=dict)

    def named(
        self, place: Place, at: Owned, error: KafkaError
    ) -> tuple[StreamError, LastRead | None]:
        """Return why a partition can't be read on, for an error of OUT_OF_RANGE.

        With it goes the last record that is left, if this loss is accepted.
        """
        parting = parting_of(error)
        if parting is None or not at.asks or parting.end >= at.last_read.end:
            return OffsetOutOfRange(f"{place[0]}/{place[1]}: {error.str()}"), None
        loss = AcceptedTruncation(
            topic=place[0], partition=place[1], offset=parting.end, epoch=at.last_read.epoch
        )
        is_accepted = loss in self.accepted
        if is_accepted:
            self._report(place, at.committed, parting)
        found = truncated(place, at.committed, at.last_read, parting)
        return found, parting if is_accepted else None

    def _report(self, place: Place, committed: int, parting: LastRead) -> None:
        topic, partition = place
        self._continued[place] = (
            f"{topic}/{partition} was routed up to offset {committed}, and the brokers have lost what was there from "
            f"offset {parting.end} on. It is read on from there, as spec.input.acceptTruncated says: what was routed "
            "and lost is not lost to the stream, and what was not read is"
        )
        log.error("input continues where it was truncated", place=place, offset=parting.end)
        self.warn(_REASON, "; ".join(self._continued.values()))
