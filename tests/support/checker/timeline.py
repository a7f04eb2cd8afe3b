"""The course of one partition: sessions, progress, losses, and how much its window can have aged."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import inf

from tests.support.checker.outside import (
    EventKind,
    OutsideEvent,
    StatusSnapshot,
    TopicRole,
    WindowBounds,
)
from tests.support.checker.record import Record
from tests.support.checker.topic_history import WORKER, Incarnation, StreamHistory, Written


class Timeline:
    """The events, statuses and offsets of one partition, by time."""

    def __init__(self, history: StreamHistory, partition: int) -> None:
        self.partition = partition
        self.rules = history.rules
        self.is_routed = history.routers
        self.progress = [each for each in history.progress if each.partition == partition]
        self.events = [each for each in history.events if each.partition in {None, partition}]
        self.statuses = [each for each in history.statuses if each.partition == partition]
        self.starts = self.of(EventKind.SESSION_STARTED)
        self.outputs = history.of(TopicRole.OUTPUT)
        self.inputs = history.of(TopicRole.INPUT)
        self._cut = history.cuts.get(partition, 0) if history.cuts else None
        self._start_of_session = {each.session: each.time_ms for each in self.starts}
        self._ranges: dict[int, tuple[str, int, int]] = {}
        self._reached: dict[str, tuple[list[int], list[int]]] = {}
        self._follow_progress()
        self._quiet = _Quiet(())

    def of(self, *kinds: EventKind) -> list[OutsideEvent]:
        """Return the events of some kinds."""
        return [each for each in self.events if each.kind in kinds]

    def between(self, after: float, until: float, *kinds: EventKind) -> list[OutsideEvent]:
        """Return the events of some kinds with after < time <= until."""
        return [each for each in self.of(*kinds) if after < each.time_ms <= until]

    # -- sessions ------------------------------------------------------------------------------------

    def start_of(self, written: Written) -> float:
        """Return when the session that wrote this began; -inf if not known."""
        return self._start_of_session.get(written.writer, -inf)

    def passing(self, record: Record, processed_ms: float) -> Written | None:
        """Return the output that a record would have, had it passed when it was processed; None if it was not."""
        if processed_ms == inf:
            return None
        starts = self.between(-inf, processed_ms, EventKind.SESSION_STARTED)
        writer = starts[-1].session if starts else WORKER
        at = bisect_left(self.progress, processed_ms, key=lambda each: each.time_ms)
        transaction = self.progress[at].transaction if at < len(self.progress) else None
        time_ms = int(processed_ms)
        return Written(record=record, time_ms=time_ms, writer=writer, transaction=transaction)

    def running_since(self, after: float) -> float:
        """Return when a session that started after this time was first seen running, or inf."""
        for index, start in enumerate(self.starts):
            if start.time_ms > after:
                following = self.starts[index + 1].time_ms if index + 1 < len(self.starts) else inf
                for status in self.statuses:
                    here = start.time_ms < status.time_ms <= following
                    if here and status.process == start.process and status.phase == "Running":
                        return status.time_ms
        return inf

    def catches_up(self, after: float, until: float) -> bool:
        """Return whether a session may have read the output between two times: it began, or was not running yet."""
        if self.between(after, until, EventKind.SESSION_STARTED):
            return True
        before = self.between(-inf, after, EventKind.SESSION_STARTED)
        return bool(before) and self.running_since(before[-1].time_ms - 1) > after

    def seen(self, after: float, until: float = inf) -> list[StatusSnapshot]:
        """Return the snapshots with after <= time <= until."""
        return [each for each in self.statuses if after <= each.time_ms <= until]

    # -- progress ------------------------------------------------------------------------------------

    def processed(self, topic: Incarnation, offset: int) -> float:
        """Return when an input offset was first committed as read, or inf."""
        reached, times = self._reached.get(topic.topic_id, ([], []))
        at = bisect_right(reached, offset)
        return times[at] if at < len(times) else inf

    def commits(self, after: float, until: float) -> bool:
        """Return whether an offset was committed at a time with after <= time <= until."""
        return any(after <= each.time_ms <= until for each in self.progress)

    def last_commit(self, before: float) -> float:
        """Return when an offset was last committed before a time, or -inf."""
        times = (each.time_ms for each in reversed(self.progress) if each.time_ms < before)
        return next(times, -inf)

    def has_progress(self, topic: Incarnation, until: float) -> bool:
        """Return whether an offset of an incarnation was committed by a time, other than its start."""
        return any(
            each.topic_id == topic.topic_id and each.offset > 0 and each.time_ms <= until
            for each in self.progress
        )

    def committed(self, topic: Incarnation, until: float = inf) -> int:
        """Return the last committed offset of an incarnation at a time, 0 without any."""
        found = 0
        for each in self.progress:
            if each.topic_id == topic.topic_id and each.time_ms <= until:
                found = each.offset
        return found

    def resumed(self, topic: Incarnation, start: float) -> int:
        """Return from which offset of an incarnation a session read on, at most: all may have been lost."""
        after = (
            each.offset
            for each in self.progress
            if each.topic_id == topic.topic_id and each.time_ms >= start
        )
        return min(self.committed(topic, start), next(after, self.committed(topic, start)))

    def offsets_of(self, transaction: int | None) -> tuple[str, int, int] | None:
        """Return input incarnation, first and end offset of a transaction, if it is known."""
        return None if transaction is None else self._ranges.get(transaction)

    def _follow_progress(self) -> None:
        """Find the input range of each transaction, and when each offset was reached.

        An offset that goes back by itself shows that those before it were of a deleted input topic: the group's offsets
        know a topic by its name only. But a start that has seen the topic before its deletion may commit what its store
        knows afterwards.
        """
        deleted = {each.topic_id: each.deleted_ms or inf for each in self.inputs}
        last: dict[str, int] = {}
        last_ms = -inf
        of_topic: dict[str, list[int]] = {}
        for each in self.progress:
            before = last.get(each.topic_id, 0)
            last[each.topic_id] = each.offset
            set_back = self.between(last_ms, each.time_ms, EventKind.OFFSETS_LOST)
            last_ms = each.time_ms
            gone = deleted.get(each.topic_id, inf) <= each.time_ms
            if each.offset < before and not (set_back or gone):
                self._reached.pop(each.topic_id, None)
                self._relabel(of_topic.pop(each.topic_id, []), each.topic_id, last)
            if each.transaction is not None:
                first = before if before <= each.offset else 0
                self._ranges[each.transaction] = (each.topic_id, first, each.offset)
                of_topic.setdefault(each.topic_id, []).append(each.transaction)
            reached, times = self._reached.setdefault(each.topic_id, ([], []))
            if not reached or each.offset > reached[-1]:
                reached.append(each.offset)
                times.append(each.time_ms)

    def _relabel(self, transactions: Sequence[int], topic_id: str, last: dict[str, int]) -> None:
        """Take these transactions for ones of the input topic before this one; `last` has its last offset."""
        names = [each.topic_id for each in self.inputs]
        at = names.index(topic_id)
        for each in transactions if at else ():
            _, first, end = self._ranges[each]
            before = names[at - 1]
            self._ranges[each] = (before, first or min(end, last.get(before, 0)), end)

    def reads_again(self, after: float, until: float) -> bool:
        """Return whether input of before a time may be read again: all that says how far it was read was lost.

        The group's offset is, and so is the store's: with its volume, with what was not flushed, or in a rebuild.
        """
        if not self.between(-inf, until, EventKind.OFFSETS_LOST):
            return False
        lost = (
            EventKind.VOLUME_LOST,
            EventKind.STORE_RESTORED,
            EventKind.STORE_DAMAGED,
            EventKind.UNSYNCED_LOST,
        )
        if self.between(after, until, *lost):
            return True
        if any(after < topic.created_ms <= until for topic in self.outputs):
            return True
        # At the same moment too: it is killed right after its commit.
        ends = self.between(after - 1, until, EventKind.WORKER_ENDED)
        # Only a worker that was stopped has flushed its store: not one that was killed, and not one that failed.
        return any(ended.exit_code != 0 for ended in ends)

    def is_of(self, written: Written, topic: Incarnation) -> bool:
        """Return whether an output record may be of this input: routers have another one than the workers before."""
        if self._cut is None:
            return True
        return (topic is self.inputs[0]) is (written.record.offset < self._cut)

    # -- what is gone --------------------------------------------------------------------------------

    def retained_away(self, role: TopicRole, topic: Incarnation, offset: int) -> float:
        """Return when retention deleted a record, or inf."""
        return next(
            (
                event.time_ms
                for event in self.of(EventKind.RETENTION)
                if event.topic is role
                and event.topic_id == topic.topic_id
                and event.offset > offset
            ),
            inf,
        )

    def find_replacement(self, topic: Incarnation) -> float:
        """Return when a worker had certainly found an output topic to be another one, or inf."""
        later = [each.created_ms for each in self.outputs if each.created_ms > topic.created_ms]
        if topic.deleted_ms is None or not later:
            return inf
        return self.running_since(later[0])

    def written(self, until: float) -> int:
        """Return how many records the output had got by a time."""
        return sum(
            each.record.partition == self.partition and each.time_ms <= until
            for topic in self.outputs
            for each in topic.records
        )

    def is_known_anew(self, topic: Incarnation, until: float) -> bool:
        """Return whether a worker had found this output topic by a time, if it is not the first one."""
        first = self.outputs[0] if self.outputs else topic
        return topic is first or self.running_since(topic.created_ms) <= until

    def output_lost(self, after: float, until: float) -> bool:
        """Return whether the output lost records between two times, by retention or with its topic."""
        retained = self.between(after, until, EventKind.RETENTION)
        return any(each.topic is TopicRole.OUTPUT for each in retained) or any(
            after < topic.created_ms <= until for topic in self.outputs[1:]
        )

    # -- age -----------------------------------------------------------------------------------------

    def set_arrivals(self, arrivals: Sequence[tuple[float, float]], bounds: WindowBounds) -> None:
        """Set when each input record arrived and was processed; from this follows how ids age."""
        waiting = [(at + bounds.backlog_grace_ms, until) for at, until in arrivals]
        self._quiet = _Quiet([*waiting, *self._stops()])

    def aged(self, after: float, until: float) -> float:
        """Return the most by which ids can have aged between two times."""
        return self._quiet.up_to(until) - self._quiet.up_to(after)

    def _stops(self) -> list[tuple[float, float]]:
        """Return the times at which no worker ran."""
        marks = self.of(EventKind.SESSION_STARTED, EventKind.WORKER_ENDED)
        running: set[str] = set()
        stops: list[tuple[float, float]] = []
        ended: float | None = None
        for mark in marks:
            if mark.kind is EventKind.SESSION_STARTED:
                if ended is not None:
                    stops.append((ended, mark.time_ms))
                    ended = None
                running.add(mark.process)
            else:
                running.discard(mark.process)
                if not running:
                    ended = mark.time_ms
        if ended is not None:
            stops.append((ended, inf))
        return stops


class _Quiet:
    """The measure of time outside of some intervals."""

    def __init__(self, excluded: Sequence[tuple[float, float]]) -> None:
        self._starts: list[float] = []
        self._ends: list[float] = []
        for start, until in sorted(each for each in excluded if each[0] < each[1]):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], until)
            else:
                self._starts.append(start)
                self._ends.append(until)
        lengths = (end - start for start, end in zip(self._starts, self._ends, strict=True))
        self._before = list(accumulate(lengths, initial=0.0))

    def up_to(self, time: float) -> float:
        """Return the time outside of the intervals before this time."""
        at = bisect_right(self._starts, time)
        if at and time < self._ends[at - 1]:
            at -= 1
            time = self._starts[at]
        return time - self._before[at]
