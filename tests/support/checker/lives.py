"""Knowledge of an id: what a worker must, may and cannot know when it decides on a record.

A life of an id begins with a record in the output: of the stream's worker or of a foreign writer. It ends when the
window may have forgotten it; the next record of the id begins another life.

    KNOWN    a repeat must not pass
    UNSURE   a repeat may pass or not: the window has aged enough, or the id was lost, and that may have been found out
    GONE     nothing of it is left: a repeat must pass
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from tests.support.checker.id_sources import Id
from tests.support.checker.outside import EventKind, OutsideEvent, TopicRole
from tests.support.checker.record import Record
from tests.support.checker.timeline import Timeline
from tests.support.checker.topic_history import Delivery, Incarnation, Written


class Known(Enum):
    """See above."""

    KNOWN = "known"
    UNSURE = "unsure"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRecord:
    """A record of the input. `place` is its position in the partition, over all incarnations."""

    place: int
    topic: Incarnation
    written: Written
    id: Id | None
    processed_ms: float

    @property
    def record(self) -> Record:
        """Return the record itself."""
        return self.written.record


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A life of an id: the output record that began it, and its input record, None of a foreign one."""

    output: Written
    output_topic: Incarnation
    input: InputRecord | None

    @property
    def begin_ms(self) -> int:
        """Return when it began."""
        return self.output.time_ms


@dataclass(frozen=True, slots=True)
class Finding:
    """The knowledge of one id. `unnamed` is set if that is KNOWN only because no status names what was lost."""

    known: Known
    unnamed: str = ""
    life: Life | None = None


@dataclass(slots=True)
class Lives:
    """The lives of all ids of one partition."""

    timeline: Timeline
    _lives: dict[Id, list[Life]] = field(default_factory=dict)
    _begins: list[float] = field(default_factory=list)

    def begin(self, identity: Id, life: Life) -> None:
        """Add a life; those of the worker in the order in which it wrote them."""
        self._lives.setdefault(identity, []).append(life)
        if life.input is not None:
            self._begins.append(life.begin_ms)

    def before(self, record: InputRecord, decided_ms: float) -> list[Life]:
        """Return the lives that began before a record was decided on, oldest first."""
        if record.id is None:
            return []
        found = [
            life
            for life in self._lives.get(record.id, ())
            if (
                life.begin_ms < decided_ms
                if life.input is None
                else life.input.place < record.place or self._came_first(life, record, decided_ms)
            )
        ]
        return sorted(found, key=lambda life: life.begin_ms)

    def _came_first(self, life: Life, record: InputRecord, decided_ms: float) -> bool:
        """Return whether a life that a later record began was known when a record was read again.

        Without transactions, a killed worker may have sent the later one only.
        """
        return self.timeline.rules.delivery is Delivery.AT_LEAST_ONCE and any(
            record.record.offset >= self.timeline.committed(record.topic, start.time_ms)
            for start in self.timeline.between(life.begin_ms, decided_ms, EventKind.SESSION_STARTED)
        )

    def find(self, record: InputRecord, decided: Written | None = None) -> Finding:
        """Return what is known of a record's id when it is decided on.

        `decided` is the output record with which it passed; without it, it did not pass.
        """
        decided_ms = record.processed_ms if decided is None else decided.time_ms
        findings = [
            self._find(life, record, decided, decided_ms)
            for life in self.before(record, decided_ms)
        ]
        for known in (Known.KNOWN, Known.UNSURE):
            # The newest first: it is the one that the worker finds.
            for finding in reversed(findings):
                if finding.known is known:
                    return finding
        return Finding(Known.GONE)

    def of(self, record: InputRecord) -> list[Life]:
        """Return every life of a record's id."""
        return [] if record.id is None else self._lives.get(record.id, [])

    def find_life(self, life: Life, record: InputRecord, decided: Written) -> Known:
        """Return what is known of one life when a record passes."""
        return self._find(life, record, decided, decided.time_ms).known

    def _find(
        self, life: Life, record: InputRecord, decided: Written | None, until: float
    ) -> Finding:
        timeline, rules = self.timeline, self.timeline.rules
        begin = life.begin_ms
        if timeline.find_replacement(life.output_topic) < until:
            return Finding(Known.GONE, life=life)
        unsure = Finding(Known.UNSURE, life=life)
        if (
            rules.forgets_at_random
            or self._may_be_out(begin, until)
            or (life.output_topic.deleted_ms is not None and life.output_topic.deleted_ms <= until)
        ):
            return unsure
        if life.input is None and timeline.running_since(begin) >= until:
            return unsure  # read at the next start only
        if rules.delivery is Delivery.AT_LEAST_ONCE and self._is_unfenced(life, decided):
            return unsure
        forgotten = [
            event
            for event in timeline.between(begin - 1, until, EventKind.FORGOTTEN)
            if record.id in event.ids
        ]
        if forgotten:
            return Finding(self._find_forgotten(forgotten, begin, until), life=life)
        return self._find_lost(life, record, until)

    def _find_forgotten(
        self, forgotten: Sequence[OutsideEvent], begin: float, until: float
    ) -> Known:
        """Return what is known of a life that an administrator let a worker forget.

        A worker that starts reads the output again, and one beside the worker that forgot it has a store of its own.
        """
        starts = self.timeline.between(begin, until, EventKind.SESSION_STARTED)
        last = forgotten[-1]
        certain = any(begin < each.time_ms < until for each in forgotten)  # not at the same moment
        again = any(
            each.time_ms >= last.time_ms or (last.process and each.process != last.process)
            for each in starts
        )
        return Known.GONE if certain and not again else Known.UNSURE

    def _find_lost(self, life: Life, record: InputRecord, until: float) -> Finding:
        """Return whether a life may be lost: a store that is rebuilt lacks what the output lacks."""
        timeline = self.timeline
        gone_ms = timeline.retained_away(
            TopicRole.OUTPUT, life.output_topic, life.output.record.offset
        )
        if not timeline.catches_up(gone_ms, until):
            return Finding(Known.KNOWN, life=life)
        if (
            any(each.truncated for each in timeline.seen(gone_ms))
            or self._is_old_after_a_step(life, until)
            or self._is_old_for_a_rebuild(life, record, gone_ms, until)
        ):
            return Finding(Known.UNSURE, life=life)
        return Finding(
            Known.KNOWN, "the output lost its record, and no status says truncated", life
        )

    def _is_old_after_a_step(self, life: Life, until: float) -> bool:
        """Return whether a record is older than the window because the wall clock has stepped.

        A rebuild knows timestamps only, and takes a window that begins with it for whole.
        """
        bounds, begin = self.timeline.rules.bounds, life.begin_ms
        steps = self.timeline.between(begin, until, EventKind.CLOCK_STEPPED)
        forward = sum(max(0, each.step_ms) for each in steps)
        return bounds is not None and bool(forward) and until - begin + forward >= bounds.keep_ms

    def _is_old_for_a_rebuild(
        self, life: Life, record: InputRecord, gone_ms: float, until: float
    ) -> bool:
        """Return whether a record came longer before all unread input than the window is.

        Ids do not age while a worker is down, but a rebuild knows timestamps only.
        """
        bounds, first = self.timeline.rules.bounds, life.input
        if bounds is None or first is None:
            return False
        for start in self.timeline.between(gone_ms, until, EventKind.SESSION_STARTED):
            offset = self.timeline.resumed(record.topic, start.time_ms)
            unread = [
                each.time_ms
                for each in record.topic.records
                if each.record.partition == self.timeline.partition and each.record.offset >= offset
            ]
            if min([start.time_ms, *unread]) - first.written.time_ms >= bounds.keep_ms:
                return True
        return False

    def _may_be_out(self, begin: float, until: float) -> bool:
        """Return whether the window may be too small for an id, by age or by number of ids."""
        earlier = self.timeline.between(-inf, begin, EventKind.BOUNDS_CHANGED)
        changes = self.timeline.between(begin, until, EventKind.BOUNDS_CHANGED)
        first = earlier[-1].bounds if earlier else self.timeline.rules.bounds
        for each in (first, *(change.bounds for change in changes)):
            if each is None:
                continue
            if until == inf or self.timeline.aged(begin, until) >= each.keep_ms:
                return True
            following = bisect_left(self._begins, until) - bisect_left(self._begins, begin)
            if each.keep_ids is not None and following >= each.keep_ids:
                return True
        return False

    def _is_unfenced(self, life: Life, decided: Written | None) -> bool:
        """Return whether the session that passed a record could not see this life.

        Without transactions, records of an older session may arrive after it has read the output.
        """
        if decided is None:
            return True  # which session dropped it is not known
        return life.output.writer != decided.writer and life.begin_ms >= self.timeline.start_of(
            decided
        )
