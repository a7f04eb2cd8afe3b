"""Number the records of a log that has lost its tail, so that each has a number of its own.

After a loss other records take the offsets of those that are lost. A judge compares offsets, so it gets numbers: as if
what came later had been appended after all that was ever there. The leader epoch of a record tells which one it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tests.support.checker.topic_history import Written


@dataclass(slots=True)
class LostTail:
    """A loss: another log begins at `offset`, in leader epoch `epoch`, and its numbers are larger by `shift`."""

    offset: int
    epoch: int
    shift: int
    time_ms: int
    records: list[Written] = field(default_factory=list)
    """What was lost."""


@dataclass(slots=True)
class Numbers:
    """The losses of one partition, and how far it was read before each."""

    losses: list[LostTail] = field(default_factory=list)
    _read: list[tuple[int, int]] = field(default_factory=list)
    """Leader epochs, and the numbers up to which a reader had come that knew no later one."""

    def lose(self, offset: int, *, end: int, epoch: int, time_ms: int) -> LostTail:
        """Add a loss from an offset on, of a log that ended at `end`; `epoch` is that of the next leader."""
        before = self.losses[-1].shift if self.losses else 0
        self.losses.append(LostTail(offset, epoch, end + before - offset, time_ms))
        return self.losses[-1]

    def number(self, offset: int, epoch: int) -> int:
        """Return the number of an offset, in the log that it was of in a leader epoch."""
        for loss in reversed(self.losses):
            if loss.epoch <= epoch and loss.offset <= offset:
                return offset + loss.shift
        return offset

    def read(self, offset: int, read_end: int, *, epoch: int, now: int) -> int | None:
        """Note a committed offset; return its number.

        `read_end` is the end of the last record before it, and `epoch` that one's, -1 if not known; `now` is the
        leader's. None for the one that is committed when a loss is accepted: nothing before it was read anew.
        """
        if epoch < 0:
            read_end, epoch = offset, now
        number = self.number(read_end, epoch)
        goes_back = any(before > number for _, before in self._read)
        self._read.append((epoch, number))
        if goes_back and any(offset == each.offset and epoch < each.epoch for each in self.losses):
            return None
        # What stands between them is gone in the log as it is now.
        return number if offset <= read_end else max(number, self.number(offset, now))

    def numbered(self, records: Iterable[Written]) -> list[Written]:
        """Return the records of a log with their numbers, and with those that were read before they were lost."""
        if not self.losses:
            return list(records)
        found = list(map(self._numbered, records))
        for loss in self.losses:
            end = max((number for epoch, number in self._read if epoch < loss.epoch), default=0)
            lost = map(self._numbered, loss.records)
            found += [
                replace(each, lost_ms=loss.time_ms) for each in lost if each.record.offset < end
            ]
        return sorted(found, key=lambda each: each.record.offset)

    def _numbered(self, written: Written) -> Written:
        record = written.record
        number = self.number(record.offset, written.epoch)
        origin = f"{record.partition}:{record.offset}"
        return replace(written, record=replace(record, offset=number), origin=origin)
