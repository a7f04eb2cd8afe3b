"""Tell an input that has lost records, and continue it if a person says so.

A position carries the leader epoch of the last record before it (docs/decisions/0055). When the reader begins, the
client library asks the leader whether that record is still in the log. Here it is asked before, in two cases: the
partition ends before the position, or spec.input.acceptTruncated may name the loss.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Final, Self

from dedupe_crds.clock import Clock
from dedupe_crds.spec.input import AcceptedTruncation
from dedupe_kafka.errors import BrokerUnavailable, Stopped
from dedupe_kafka.fetch_errors import InputTruncated, truncated
from dedupe_kafka.offsets import NOTHING_READ, LastRead, Place
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.kafka.consumer import OffsetOutOfRange, PartitionReader
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.metadata import NO_RECORDS, StoreMetadata, last_read_of

_ANSWER_SECONDS: Final = 15.0
_READ_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Known:
    """An input offset that is known, -1 for none, and the last record before it."""

    offset: int
    last_read: LastRead = NOTHING_READ

    @property
    def read_to(self) -> int:
        """Return the offset before which every record was in the log."""
        return self.last_read.end if self.last_read.is_known else self.offset


NOTHING_KNOWN: Final = Known(-1)


def furthest(
    committed: Committed | None,
    metadata: StoreMetadata | None,
    read_before: Known = NOTHING_KNOWN,
) -> Known:
    """Return the furthest of the known positions.

    A later leader epoch is further: it is of the log after a loss, whose offsets may be smaller.
    """
    known = read_before
    if committed is not None:
        known = _further(Known(committed.offset, committed.last_read), known)
    if metadata is not None:
        known = _further(known, Known(metadata.input_offset, last_read_of(metadata)))
    return known


def _further(first: Known, second: Known) -> Known:
    if first.last_read.is_known and second.last_read.is_known:
        return max(first, second, key=lambda each: (each.last_read.epoch, each.offset))
    return max(first, second, key=lambda each: (each.offset, each.last_read.is_known))


@dataclass(frozen=True, slots=True)
class LostTail:
    """Asks for a lost tail; `accepted` are the losses after which the input continues."""

    open_reader: Callable[[], PartitionReader]
    accepted: Sequence[AcceptedTruncation]
    clock: Clock
    stop: Event

    @classmethod
    def of(cls, factory: ComponentFactory, stop: Event) -> Self:
        """Return what asks for the input of a worker."""
        spec = factory.config.stream.spec
        accepted = spec.input.accept_truncated or ()
        return cls(partial(factory.make_reader, spec.worker_input), accepted, factory.clock, stop)

    def accepted_parting(self, place: Place, known: Known, end: int) -> LastRead | None:
        """Return where the input continues after a loss that is accepted.

        `end` is where the partition ends now. None without a loss, or if only the reader can tell it. Raises
        InputTruncated for a loss that is not accepted, and the errors of the reader.
        """
        read = known.last_read
        accepted = [
            each.offset
            for each in self.accepted
            if (each.topic, each.partition, each.epoch) == (*place, read.epoch)
            and each.offset < read.end
        ]
        if not read.is_known or (known.read_to <= end and not accepted):
            return None
        parting = self._ask(read)
        if parting is None or parting.end in accepted:
            return parting
        raise truncated(place, known.offset, read, parting)

    def _ask(self, read: LastRead) -> LastRead | None:
        """Return where the partition parts from what was read; None if it does not."""
        deadline = self.clock.deadline(_ANSWER_SECONDS, self.stop)
        with closing(self.open_reader()) as reader:
            reader.seek(read.end, read)
            try:
                # Nothing is fetched, and so no end known, before the leader has answered.
                while not reader.read(1, _READ_SECONDS).records and reader.end_offset() is None:
                    if self.stop.is_set():
                        raise Stopped("asking whether the input has lost its tail")
                    if deadline.expired:
                        raise BrokerUnavailable(
                            f"{reader.topic}/{reader.partition}: no broker says whether the record before offset "
                            f"{read.end} is still there; asking again"
                        )
            except InputTruncated as found:
                return found.parting
            except OffsetOutOfRange:
                return None  # of a broker that can't be asked
        return None


def rewind(store: IdStore, parting: LastRead) -> None:
    """Write to disk that the input continues where the logs part."""
    if (latest := store.metadata) is None:
        return
    store.write(
        (),
        (),
        output_position=latest.output_position,
        input_offset=parting.end,
        seen_ms=latest.last_seen_ms,
        newest_ms=latest.newest_ms,
        aged_ms=latest.aged_ms or None,
        last=NO_RECORDS._replace(read_up_to=parting),
        own_output=latest.own_output,
    )
    store.flush()
