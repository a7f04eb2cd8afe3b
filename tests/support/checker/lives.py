"""Knowledge of an id: what a worker must, may and cannot know when it decides on a record.

A life of an id begins with a record in the output: of the stream's worker or of a foreign writer. It ends when the
window may have forgotten it; the next record of the id begins another life.

    KNOWN    a repeat must not pass
    UNSURE   a repeat may pass or not: the window has aged enough, or the id was lost, and that may have been found out
    GONE     nothing of it is left: a repeat must pass

Of a table of fixed size an id is UNSURE with a chance of being lost: of many repeats about so many pass.
"""

from bisect import bisect_left, insort
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
    position: str = ""
    """Where the stream's producer wrote it, as the headers of side topics name it."""

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
    chance: float | None = None
    """Of an id in a table: the chance that it is lost."""


@dataclass(slots=True)
class Lives:
    """The lives of all ids of one partition."""

    timeline: Timeline
    inputs: Sequence[InputRecord] = ()
    everywhere: dict[Id, list[Life]] | None = None
    """The lives of all partitions, of a stream with routers."""
    _lives: dict[Id, list[Life]] = field(default_factory=dict)
    _begins: list[float] = field(default_factory=list)
    _foreign: list[float] = field(default_factory=list)

    def begin(self, identity: Id, life: Life) -> None:
        """Add a life; those of the worker in the order in which it wrote them."""
        self._lives.setdefault(identity, []).append(life)
        insort(self._begins, life.begin_ms)
        if life.output.is_foreign:
            insort(self._foreign, life.begin_ms)
        if self.everywhere is not None:
            self.everywhere.setdefault(identity, []).append(life)

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
        elsewhere = [
            life for life in self._everywhere(record.id) if self._moved_before(life, record)
        ]
        return sorted(elsewhere + found, key=lambda life: life.begin_ms)

    def _everywhere(self, identity: Id | None) -> list[Life]:
        if self.everywhere is None or identity is None:
            return []
        return self.everywhere.get(identity, [])

    def is_elsewhere(self, life: Life) -> bool:
        """Return whether a life began in another partition."""
        return life.output.record.partition != self.timeline.partition

    def _moved_before(self, life: Life, record: InputRecord) -> bool:
        """Return whether an id came to this partition after a life of it in another one.

        A growth moves ids to new partitions only, and those get higher numbers. What was read without routers was read
        before.
        """
        if life.input is None or not self.is_elsewhere(life):
            return False
        if life.input.topic is record.topic:
            return life.output.record.partition < self.timeline.partition
        return self.timeline.inputs.index(life.input.topic) < self.timeline.inputs.index(
            record.topic
        )

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

    def learnt_for(self, life: Life, record: InputRecord) -> list[Life]:
        """Return a life, and those that a worker may have learnt in its place.

        Of several records of an id in the output of another partition a worker may learn any.
        """
        if not self.is_elsewhere(life):
            return [life]
        there = life.output.record.partition
        others = (
            each
            for each in self._everywhere(record.id)
            if each.output.record.partition == there and each is not life
        )
        return [life, *others]

    def of(self, record: InputRecord) -> list[Life]:
        """Return every life of a record's id."""
        return [] if record.id is None else self._lives.get(record.id, [])

    def find_life(self, life: Life, record: InputRecord, decided: Written) -> Known:
        """Return what is known of one life when a record passes."""
        return self._find(life, record, decided, decided.time_ms).known

    def _find(
        self, life: Life, record: InputRecord, decided: Written | None, until: float
    ) -> Finding:
        timeline, slots = self.timeline, self.timeline.rules.table_slots
        begin = life.begin_ms
        if decided is not None and self._is_open(life, decided) and not _is_same(life, record):
            return Finding(Known.KNOWN, life=life)
        if timeline.find_replacement(life.output_topic) < until:
            return Finding(Known.GONE, life=life)
        if self._is_unsure(life, record, decided, until):
            return Finding(Known.UNSURE, life=life)
        forgotten = [
            event
            for event in timeline.between(begin - 1, until, EventKind.FORGOTTEN)
            if record.id in event.ids
        ]
        if forgotten:
            return Finding(self._find_forgotten(forgotten, begin, until), life=life)
        finding = self._find_lost(life, record, until)
        return finding if slots is None else self._find_in_table(finding, life, until, slots)

    def _is_unsure(
        self, life: Life, record: InputRecord, decided: Written | None, until: float
    ) -> bool:
        """Return whether it can't be said if a worker knew of a life: its window is full, or it could not see it."""
        deleted_ms = life.output_topic.deleted_ms
        if self._may_be_out(life, until) or (deleted_ms is not None and deleted_ms <= until):
            return True
        if life.input is None and self.timeline.running_since(life.begin_ms) >= until:
            return True  # read at the next start only
        return self.timeline.rules.delivery is Delivery.AT_LEAST_ONCE and (
            self._is_unfenced(life, decided) or _is_same(life, record)
        )

    def _find_in_table(self, finding: Finding, life: Life, until: float, slots: int) -> Finding:
        """Return what is known of an id that a table of fixed size may have lost as well."""
        certain = finding.known is Known.KNOWN and not finding.unnamed
        chance = self._chance(life, until, slots) if certain else None
        return Finding(Known.UNSURE, life=life, chance=chance)

    def _is_open(self, life: Life, decided: Written) -> bool:
        """Return whether a record was decided on in the transaction that began a life: its ids are all known.

        Without transactions, that is up to the next commit of the input offset.
        """
        if life.input is None or life.output.writer != decided.writer or life.output is decided:
            return False
        if self.timeline.rules.delivery is Delivery.EXACTLY_ONCE:
            number = decided.transaction
            return number is not None and life.output.transaction == number
        return not self.is_elsewhere(life) and not self.timeline.commits(
            life.begin_ms, decided.time_ms
        )

    def _chance(self, life: Life, until: float, slots: int) -> float:
        """Return the chance that a table has lost an id: each id that is put into it takes one slot.

        An id is put with those of its transaction, in any order, and at a start with its neighbours in the output. A
        growth puts ids that were in other partitions as well, nearly all of which the input has again.
        """
        following = self._following(life, until)
        if self.everywhere is not None:
            following = self._put(-inf, until) + sum(
                any(self.is_elsewhere(each) for each in self._everywhere(identity))
                for identity in {each.id for each in self.inputs}
                if identity is not None
            )
        bounds = self.timeline.rules.bounds
        if bounds and self.timeline.catches_up(life.begin_ms - 1, until):
            following += bounds.learnt_at_once
        return 1 - (1 - 1 / slots) ** following

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

    def _may_be_out(self, life: Life, until: float) -> bool:
        """Return whether the window may be too small for an id, by age or by number of ids."""
        begin = life.begin_ms
        earlier = self.timeline.between(-inf, begin, EventKind.BOUNDS_CHANGED)
        changes = self.timeline.between(begin, until, EventKind.BOUNDS_CHANGED)
        first = earlier[-1].bounds if earlier else self.timeline.rules.bounds
        for each in (first, *(change.bounds for change in changes)):
            if each is None:
                continue
            if until == inf or self.timeline.aged(begin, until) >= each.keep_ms:
                return True
            if each.keep_ids is None or self._put(-inf, until) <= each.all_ids:
                continue
            learnt = each.learnt_at_once if self.timeline.catches_up(begin - 1, until) else 0
            if self._following(life, until) + learnt >= each.keep_ids:
                return True
        return False

    def _following(self, life: Life, until: float) -> int:
        """Return how many ids came since the begin of a life's transaction, and up to a time.

        A running worker learns those of foreign records only later, also if they were written before that.
        """
        begin: float = life.begin_ms
        if self.timeline.rules.delivery is Delivery.AT_LEAST_ONCE:
            begin = self.timeline.last_commit(begin)
        starts = self.timeline.between(-inf, begin, EventKind.SESSION_STARTED)
        start = starts[-1].time_ms if starts else -inf
        late = bisect_left(self._foreign, begin) - bisect_left(self._foreign, start)
        return self._put(begin, until) + late

    def _put(self, after: float, until: float) -> int:
        """Return how many ids were written to the store from a time on, at most.

        Those of records that went with a deleted output topic began no life: then any record may be one of them.
        """
        if any((topic.deleted_ms or inf) <= until for topic in self.timeline.outputs):
            return sum(
                each.id is not None and each.written.time_ms <= until and each.processed_ms >= after
                for each in self.inputs
            )
        return bisect_left(self._begins, until) - bisect_left(self._begins, after)

    def _is_unfenced(self, life: Life, decided: Written | None) -> bool:
        """Return whether the session that passed a record could not see this life.

        Without transactions, records of an older session may arrive after it has read the output.
        """
        if self.is_elsewhere(life):
            return False  # it reads those up to their end before its first record
        if decided is None:
            return True  # which session dropped it is not known
        return life.output.writer != decided.writer and life.begin_ms >= self.timeline.start_of(
            decided
        )


def _is_same(life: Life, record: InputRecord) -> bool:
    """Return whether a record has the origin of the one that began a life: a router has written it again."""
    return (
        life.input is not None
        and life.input.place != record.place
        and life.input.topic is record.topic
        and life.input.position == record.position
    )
