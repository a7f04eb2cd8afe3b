"""Judge a whole stream: all partitions, all incarnations of its topics, its window, and what its workers said.

Pure, as `checker.judge`, which is for histories of one incarnation without a window. The rules are those of
docs/guarantees.md and docs/concepts.md; `lives` says what must be known of an id, `side_topics` judges the routed
records and `silence` the statuses.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf

from tests.support.checker.checker import Defect, Repeats, Verdict
from tests.support.checker.id_sources import Id, IdOf
from tests.support.checker.lives import Finding, InputRecord, Known, Life, Lives
from tests.support.checker.matching import Kind, Matcher, content_of
from tests.support.checker.outside import EventKind, TopicRole
from tests.support.checker.record import Record
from tests.support.checker.side_topics import SideTopics, place_of
from tests.support.checker.silence import judge_statuses
from tests.support.checker.timeline import Timeline
from tests.support.checker.topic_history import (
    Delivery,
    Incarnation,
    StreamHistory,
    Written,
)


@dataclass(frozen=True, slots=True)
class _Chance:
    """A repeat of which a table may have lost the id, by a chance."""

    chance: float
    passed: bool
    defect: Defect


def judge_stream(history: StreamHistory, id_of: IdOf) -> Verdict:
    """Judge every partition of a stream."""
    verdict = Verdict()
    partitions = sorted(
        {each.record.partition for topic in history.topics for each in topic.records}
        | {each.partition for each in history.statuses}
    )
    lives: dict[Id, list[Life]] | None = {} if history.routers else None
    judges = [_PartitionJudge(history, each, id_of, verdict, lives) for each in partitions]
    everywhere = {content_of(each.record) for judge in judges for each in judge.inputs}
    # What was read without routers came first, and a growth moves ids to higher partitions only.
    for judge in judges:
        judge.judge_output(everywhere, history.cuts.get(judge.partition, 0))
    for judge in judges:
        judge.judge_output(everywhere, inf)
    for judge in judges:
        judge.judge_rest()
    _judge_tables([each for judge in judges for each in judge.chances], verdict)
    return verdict


_SURPRISING = 1e-9
"""A judge of millions of histories may be surprised by chance once in as many."""


def _judge_tables(chances: Sequence[_Chance], verdict: Verdict) -> None:
    """Add a defect if more repeats passed than tables of fixed size lose, but for an incredible chance (Chernoff)."""
    expected = sum(each.chance for each in chances)
    passed = [each for each in chances if each.passed]
    found = len(passed)
    repeats = Repeats(0, 0, len(chances), expected, found)
    verdict.repeats += repeats
    if found <= expected:
        return
    if not expected or exp(found - expected) * (expected / found) ** found < _SURPRISING:
        detail = f"{found} repeats passed of {len(chances)}, of which a table loses {expected:.1f}"
        verdict.duplicated.extend(replace(each.defect, detail=detail) for each in passed)


@dataclass(slots=True)
class _Order:
    """The order of one writer's records: the furthest place so far, and the transaction that was last."""

    furthest: int = -1
    transaction: int | None = None
    begun: bool = False
    read_again: bool = False


@dataclass(slots=True)
class _PartitionJudge:
    history: StreamHistory
    partition: int
    id_of: IdOf
    verdict: Verdict
    everywhere: dict[Id, list[Life]] | None
    timeline: Timeline = field(init=False)
    inputs: list[InputRecord] = field(init=False)
    lives: Lives = field(init=False)
    matcher: Matcher = field(init=False)
    passed: dict[int, Written] = field(default_factory=dict)
    withdrawn: set[int] = field(default_factory=set)
    chances: list[_Chance] = field(default_factory=list)
    _outputs: deque[tuple[Incarnation, Written]] = field(init=False)
    _orders: dict[str, _Order] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.timeline = Timeline(self.history, self.partition)
        self._outputs = deque(
            (topic, each) for topic in self.timeline.outputs for each in self._here(topic)
        )
        self.inputs = list(self._inputs())
        bounds = self.history.rules.bounds
        if bounds is not None:
            # A deleted topic's records wait no longer.
            arrivals = [
                (each.written.time_ms, min(each.processed_ms, each.topic.deleted_ms or inf))
                for each in self.inputs
            ]
            self.timeline.set_arrivals(arrivals, bounds)
        self.lives = Lives(self.timeline, self.inputs, self.everywhere)
        self.matcher = Matcher(self.inputs, self.timeline)

    def judge_rest(self) -> None:
        """Add the defects of this partition to the verdict but for those of its output."""
        self._find_withdrawn()
        sides = SideTopics(self.history, self.timeline, self.lives, self.inputs, self.id_of)
        sides.judge(self.passed, self.withdrawn, self.verdict)
        expired = self._judge_missing(sides.late)
        self.verdict.expired += expired
        judge_statuses(self.timeline, expired, self.verdict)

    def _inputs(self) -> list[InputRecord]:
        found: list[InputRecord] = []
        for topic in self.timeline.inputs:
            for each in self._here(topic):
                found.append(
                    InputRecord(
                        place=len(found),
                        topic=topic,
                        written=each,
                        id=self.id_of(each.record),
                        processed_ms=self.timeline.processed(topic, each.record.offset),
                        position=each.origin or place_of(each.record),
                    )
                )
        return found

    def _here(self, topic: Incarnation) -> list[Written]:
        return [each for each in topic.records if each.record.partition == self.partition]

    # -- what passed ---------------------------------------------------------------------------------

    def judge_output(self, everywhere: set[tuple[object, ...]], before: float) -> None:
        """Add the defects of the next output records, up to an offset, to the verdict."""
        exactly_once = self.history.rules.delivery is Delivery.EXACTLY_ONCE
        while self._outputs and self._outputs[0][1].record.offset < before:
            topic, written = self._outputs.popleft()
            if written.is_foreign:
                self._begin_life(topic, written, None)
                continue
            self.verdict.found += 1
            writer = "" if exactly_once else written.writer
            order = self._orders.setdefault(writer, _Order())
            if not (exactly_once or order.begun):
                self._read_uncommitted(written, order)
            order.begun = True
            self._judge_record(topic, written, order, everywhere)

    def _judge_record(
        self,
        topic: Incarnation,
        written: Written,
        order: _Order,
        everywhere: set[tuple[object, ...]],
    ) -> None:
        verdict = self.verdict
        identity = self.id_of(written.record)

        def may_pass(record: InputRecord) -> bool:
            return self._known(record, written) is not Known.KNOWN

        self._read_again(written, order)
        match = self.matcher.match(written, identity, order.furthest, may_pass)
        if match is None:
            elsewhere = content_of(written.record) in everywhere
            (verdict.misplaced if elsewhere else verdict.foreign).append(
                self._defect(None, written)
            )
            return
        if match.kind is Kind.AGAIN or match.input.place in self.passed:
            if not self._may_come_again(match.input, written):
                verdict.duplicated.append(self._defect(match.input, written, "it passed before"))
                return
            if order.read_again:
                self._judge_order(match.input, written, order)
            else:
                order.furthest = match.input.place  # all from there on is read again
            self.passed[match.input.place] = written
            self._begin_life(topic, written, match.input)
            return
        if match.kind is Kind.ALTERED:
            names = _changed(match.input.record, written.record)
            verdict.altered.append(self._defect(match.input, written, f"{names} differ"))
        self._judge_order(match.input, written, order)
        self._judge_repeat(match.input, written)
        self.passed[match.input.place] = written
        self._begin_life(topic, written, match.input)

    def _read_again(self, written: Written, order: _Order) -> None:
        """Begin the order anew where a transaction reads input again, because every offset was lost."""
        here = self.timeline.offsets_of(written.transaction)
        if here is None or written.transaction == order.transaction:
            return
        order.transaction = written.transaction
        topic_id, first, _ = here
        places = (
            each.place
            for each in self.inputs
            if each.topic.topic_id == topic_id and each.record.offset >= first
        )
        place = next(places, order.furthest + 1)
        furthest = self.passed.get(order.furthest)
        if (
            place <= order.furthest
            and furthest
            and self.timeline.reads_again(furthest.time_ms, written.time_ms)
        ):
            order.furthest, order.read_again = place - 1, True
            self.matcher.forget(place)

    def _read_uncommitted(self, written: Written, order: _Order) -> None:
        """Begin the order of a session without transactions, if the output had lost records when it wrote first.

        What was not committed is read again: what has passed of it may be gone from the output.
        """
        start = self.timeline.start_of(written)
        if not self.timeline.output_lost(-inf, written.time_ms):
            return
        for topic in self.timeline.inputs:
            if topic.created_ms <= start < (topic.deleted_ms or inf):
                committed = self.timeline.resumed(topic, start)
                here = [each for each in self.inputs if each.topic is topic]
                places = (each.place for each in here if each.record.offset >= committed)
                order.furthest, order.read_again = next(places, len(self.inputs)) - 1, True
                self.matcher.forget(order.furthest + 1)

    def _judge_order(self, record: InputRecord, written: Written, order: _Order) -> None:
        if record.place < order.furthest:
            after = self.inputs[order.furthest].record.offset
            detail = f"it stands after raw offset {after}"
            self.verdict.reordered.append(self._defect(record, written, detail))
        order.furthest = max(order.furthest, record.place)
        if self._is_ahead(record):
            self.verdict.ahead.append(self._defect(record, written))

    def _judge_repeat(self, record: InputRecord, written: Written) -> None:
        if self.history.rules.observe:
            return
        finding = self.lives.find(record, written)
        self._count(finding, record, written)
        if finding.known is not Known.KNOWN or finding.life is None:
            return
        first = finding.life.input
        origin = "a foreign record" if first is None else f"raw offset {first.record.offset}"
        if finding.unnamed:
            detail = f"it repeats {origin}; {finding.unnamed}"
            self.verdict.silent.append(self._defect(record, written, detail))
        else:
            age = written.time_ms - finding.life.begin_ms
            detail = f"it repeats {origin}, {age} ms younger"
            self.verdict.duplicated.append(self._defect(record, written, detail))

    def _count(self, finding: Finding, record: InputRecord, written: Written | None) -> None:
        """Count a repeat, and whether it is judged: alone, or with others by their chances."""
        if finding.life is None or finding.known is Known.GONE:
            return
        self.verdict.repeats.all += 1
        if finding.chance is not None:
            defect = self._defect(record, written)
            self.chances.append(_Chance(finding.chance, written is not None, defect))
        elif finding.known is Known.UNSURE:
            self.verdict.repeats.unjudged += 1

    def _known(self, record: InputRecord, written: Written | None = None) -> Known:
        if self.history.rules.observe or record.id is None:
            return Known.GONE
        return self.lives.find(record, written).known

    def _may_come_again(self, record: InputRecord, written: Written) -> bool:
        """Return whether a record may pass twice.

        Those that at-least-once documents may. So may, in both modes, what is read again because every offset was lost,
        if its id was forgotten or it has none.
        """
        first = self.passed.get(record.place)
        if first and self.timeline.reads_again(first.time_ms, written.time_ms):
            known = [self.lives.find_life(life, record, written) for life in self.lives.of(record)]
            if Known.KNOWN not in known:
                return True
        if self.history.rules.delivery is Delivery.EXACTLY_ONCE:
            return False
        start = self.timeline.start_of(written)
        if record.record.offset < self.timeline.committed(record.topic, start):
            return bool(self.timeline.between(0, start, EventKind.OFFSETS_LOST))
        if record.id is None:
            return True  # only ids are searched for in the output
        return first is None or first.time_ms >= start or self._has_left(record, first, written)

    def _has_left(self, record: InputRecord, first: Written, until: Written) -> bool:
        """Return whether the output had lost a record by a time: so no session could see it there."""
        away, offset = self.timeline.retained_away, first.record.offset
        return any(
            min(
                life.output_topic.deleted_ms or inf,
                away(TopicRole.OUTPUT, life.output_topic, offset),
            )
            <= until.time_ms
            for life in self.lives.of(record)
            if life.output is first
        )

    def _is_ahead(self, record: InputRecord) -> bool:
        rules = self.history.rules
        if rules.delivery is not Delivery.EXACTLY_ONCE or record.topic.deleted_ms is not None:
            return False
        if not self.timeline.progress or self.timeline.of(EventKind.OFFSETS_LOST):
            return False
        return record.processed_ms == inf

    def _begin_life(self, topic: Incarnation, written: Written, record: InputRecord | None) -> None:
        identity: Id | None = self.id_of(written.record)
        if identity is not None:
            self.lives.begin(identity, Life(output=written, output_topic=topic, input=record))

    def _find_withdrawn(self) -> None:
        """Begin the lives of records whose transaction was open when the output topic was deleted.

        They went with it, and their input offsets were committed. Of one that may be known it is not certain that it
        was in the transaction.
        """
        for record in self.inputs:
            known = self._known(record)
            if record.place in self.passed or known is Known.KNOWN:
                continue
            for topic in self.timeline.outputs:
                deleted = topic.deleted_ms
                until = min(record.processed_ms, self.timeline.find_replacement(topic))
                if deleted is None or until == inf or record.processed_ms != until:
                    continue
                if record.written.time_ms <= deleted <= until:
                    before = Written(record=record.record, time_ms=deleted - 1)
                    if known is Known.GONE:
                        gone = replace(before, time_ms=deleted)
                        self._begin_life(topic, gone, record)
                    elif self._known(record, before) is Known.KNOWN:
                        continue
                    self.withdrawn.add(record.place)

    # -- what is missing -----------------------------------------------------------------------------

    def _judge_missing(self, late: set[int]) -> int:
        """Add what is lost to the verdict; return how many records were deleted unread."""
        expired = 0
        for record in self.inputs:
            if not self._is_due(record):
                continue
            self.verdict.judged += 1
            self.verdict.expected += 1
            if record.place in self.passed or record.place in late | self.withdrawn:
                continue
            if self._known(record) is not Known.GONE:
                passing = self.timeline.passing(record.record, record.processed_ms)
                self._count(self.lives.find(record, passing), record, None)
                self.verdict.expected -= 1
                continue
            if self._may_be_expired(record):
                self.verdict.expected -= 1
                expired += self._was_begun(record) and not self._stands_in(record)
                continue
            self.verdict.lost.append(self._defect(record, None))
        return expired

    def _is_due(self, record: InputRecord) -> bool:
        if record.topic.deleted_ms is not None:
            return record.processed_ms <= record.topic.deleted_ms
        return self.history.rules.drained or record.processed_ms < inf

    def _may_be_expired(self, record: InputRecord) -> bool:
        gone = self.timeline.retained_away(TopicRole.INPUT, record.topic, record.record.offset)
        return gone <= record.processed_ms and gone < inf

    def _was_begun(self, record: InputRecord) -> bool:
        """Return whether the worker had begun to read this input topic, or one before it, when a record expired.

        Else the topic begins for it with what is left. With a volume it loses what it knew of an earlier topic: Kafka
        deletes the committed offsets with the topic.
        """
        gone = self.timeline.retained_away(TopicRole.INPUT, record.topic, record.record.offset)
        begun = [record.topic]
        if not self.timeline.of(EventKind.VOLUME_LOST):
            begun = self.timeline.inputs[: self.timeline.inputs.index(record.topic) + 1]
        return any(self.timeline.has_progress(topic, gone) for topic in begun)

    def _stands_in(self, record: InputRecord) -> bool:
        """Return whether a record expired that had come in the place of lost ones, of which the worker had read none.

        Nothing tells it how many there were. It tells that the log is another one, or how far that is gone.
        """
        epoch, topic = record.written.epoch, record.topic
        gone = self.timeline.retained_away(TopicRole.INPUT, topic, record.record.offset)
        log = (each.record.offset for each in self._here(topic) if each.epoch == epoch)
        return epoch > 0 and self.timeline.committed(topic, gone) <= min(log)

    def _defect(
        self, record: InputRecord | None, written: Written | None, detail: str = ""
    ) -> Defect:
        found = record.record if record else written.record if written else None
        assert found is not None
        return Defect(
            partition=self.partition,
            raw_offset=record.record.offset if record else None,
            clean_offset=written.record.offset if written else None,
            id=self.id_of(found),
            detail=detail,
        )


def _changed(raw: Record, clean: Record) -> str:
    names = ("key", "value", "headers", "timestamp_ms")
    return ", ".join(name for name in names if getattr(raw, name) != getattr(clean, name))
