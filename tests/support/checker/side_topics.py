"""Judge the side topics of one partition: each record that was kept from the output is there once, with its headers.

A routed record is told by its position, which is a header, and by its content. `unknown` is right as the original only
where docs/concepts.md says so: a foreign record, one of an input topic that was deleted, and, after a start, one that
was written without transactions or in a transaction that has no entry in the owner log.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from tests.support.checker.checker import Defect, Verdict
from tests.support.checker.id_sources import IdOf
from tests.support.checker.lives import InputRecord, Known, Life, Lives
from tests.support.checker.matching import content_of
from tests.support.checker.outside import EventKind, TopicRole
from tests.support.checker.record import Headers, Record
from tests.support.checker.timeline import Timeline
from tests.support.checker.topic_history import Delivery, StreamHistory, Written

ADDED = ("dedupe-original", "dedupe-position", "dedupe-age-ms", "dedupe-late")
_SLOW_MS = 120_000
"""A transaction may be slow for a broker that was away so long before its end, or a process that was frozen."""
_SIDES = (TopicRole.DUPLICATES, TopicRole.CONFLICTS, TopicRole.LATE)


@dataclass(slots=True)
class SideTopics:
    """The side topics of one partition. After `judge`, `late` has the places of the late records."""

    history: StreamHistory
    timeline: Timeline
    lives: Lives
    inputs: Sequence[InputRecord]
    id_of: IdOf
    late: set[int] = field(default_factory=set)
    _routed: defaultdict[int, list[tuple[TopicRole, Written]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _withdrawn: Collection[int] = ()
    _passed: Mapping[int, Written] = field(default_factory=dict)

    def judge(
        self, passed: Mapping[int, Written], withdrawn: Collection[int], verdict: Verdict
    ) -> None:
        """Add the defects to the verdict.

        `passed` has the output record of each place that passed, `withdrawn` the places of records that may have gone
        with an output topic.
        """
        self._passed, self._withdrawn = passed, withdrawn
        self._sort(verdict)
        for place, found in self._routed.items():
            record = self.inputs[place]
            if place in passed:
                if self._was_read_again(record, passed[place], found):
                    continue  # it repeats itself
                if self._another_stood_in(record, passed[place], found):
                    continue  # it repeats what it was taken for
                self._report(verdict, record, found[0][1], "it passed as well")
            elif len(found) > 1 and not self._may_come_again(record, found):
                self._report(verdict, record, found[1][1], f"{len(found)} times in side topics")
            for role, written in found:
                if problem := self._problem(record, role, written):
                    self._report(verdict, record, written, f"{role.value}: {problem}")
        for record in self.inputs:
            if not any(record.place in places for places in (passed, withdrawn, self._routed)):
                self._judge_unrouted(record, verdict)

    def _sort(self, verdict: Verdict) -> None:
        """Find the input record of each routed record."""
        for topic in self.history.topics:
            if topic.role not in _SIDES:
                continue
            for written in topic.records:
                if written.record.partition != self.timeline.partition or written.is_foreign:
                    continue
                record = self._source(written)
                if record is None:
                    self._report(verdict, None, written, f"{topic.role.value}: of no input record")
                    continue
                self._routed[record.place].append((topic.role, written))
                if "dedupe-late" in _added(written.record):
                    self.late.add(record.place)

    def _source(self, written: Written) -> InputRecord | None:
        """Return its input record: of the input topic that its transaction read, as far as that is known."""
        position = _added(written.record).get("dedupe-position")
        here = self.timeline.offsets_of(written.transaction)
        found = [
            record
            for record in self.inputs
            if position == record.position
            and _same(record.record, written.record)
            and record.written.time_ms <= written.time_ms
        ]
        of_topic = [each for each in found if here is None or here[0] == each.topic.topic_id]
        # What a router has written twice has one position.
        taken = self._routed.keys() | self._passed.keys()
        left = [each for each in of_topic if each.place not in taken]
        return next(iter(left or of_topic or found[-1:]), None)

    # -- a record that is in a side topic ------------------------------------------------------------

    def _problem(self, record: InputRecord, role: TopicRole, written: Written) -> str:
        """Return what is wrong with a routed record, or an empty text."""
        headers = _added(written.record)
        if "dedupe-late" in headers:
            return self._late_problem(record, role, headers, written)
        life = self._withdrawn_original(record, headers) or self._original(record, written)
        if life is None:
            unsent = self._may_be_unsent(record)
            return "" if unsent else "it repeats nothing that is remembered"
        problem, *others = (
            self._problem_of(record, role, written, each)
            for each in self.lives.learnt_for(life, record)
        )
        return "" if "" in others else problem

    def _problem_of(
        self, record: InputRecord, role: TopicRole, written: Written, life: Life
    ) -> str:
        """Return what is wrong with a routed record, if it repeats this life."""
        headers = _added(written.record)
        if (self._role_of(record, life)) is not role:
            return f"it belongs into {self._role_of(record, life)}"
        allowed = self._originals(record, life, written)
        if headers.get("dedupe-original") not in allowed:
            return f"original is {headers.get('dedupe-original')}, not {' or '.join(allowed)}"
        age = record.record.timestamp_ms - life.output.record.timestamp_ms
        if headers.get("dedupe-age-ms") != str(age):
            return f"age is {headers.get('dedupe-age-ms')}, not {age}"
        return ""

    def _withdrawn_original(self, record: InputRecord, headers: dict[str, str]) -> Life | None:
        """Return the life of the record that is named as the original, if it may have gone with its output topic."""
        for each in self.inputs[: record.place]:
            if (
                each.place in self._withdrawn
                and each.id == record.id
                and each.position == headers.get("dedupe-original")
            ):
                written = Written(record=each.record, time_ms=int(each.processed_ms))
                return Life(output=written, output_topic=self.timeline.outputs[-1], input=each)
        return None

    def _may_be_unsent(self, record: InputRecord) -> bool:
        """Return whether what a record repeats may never have been sent, without transactions.

        Neither's offset was committed when the input topic was deleted.
        """
        deleted, topic = record.topic.deleted_ms, record.topic
        return (
            self.history.rules.delivery is Delivery.AT_LEAST_ONCE
            and deleted is not None
            and record.record.offset >= self.timeline.committed(topic, deleted)
            and any(each.id == record.id for each in self.inputs[: record.place])
        )

    def _late_problem(
        self, record: InputRecord, role: TopicRole, headers: dict[str, str], written: Written
    ) -> str:
        if role is not TopicRole.LATE or not self.history.rules.routes_late:
            return "it is late"
        bound = headers["dedupe-late"]
        if not bound.isdecimal() or record.record.timestamp_ms >= int(bound):
            return f"its timestamp {record.record.timestamp_ms} is not before {bound}"
        if "dedupe-original" in headers:
            return "a late record has no original"
        # What is read again is decided on with what is known then.
        again = self.timeline.reads_again(record.processed_ms, written.time_ms)
        finding = self.lives.find(record, written if again else None)
        return "its id is known" if finding.known is Known.KNOWN else ""

    def _original(self, record: InputRecord, written: Written) -> Life | None:
        """Return the life that a record repeats: the newest, as each begins when those before are forgotten.

        Not one that a later session began, which has read the input again; but without transactions the first one may
        not have arrived.
        """
        found = self.lives.before(record, written.time_ms)
        lives = [
            life
            for life in found
            if life.begin_ms <= written.time_ms or life.output.writer == written.writer
        ] or found
        return lives[-1] if lives and self.lives.find(record).known is not Known.GONE else None

    def _role_of(self, record: InputRecord, life: Life) -> TopicRole | None:
        rules, first = self.history.rules, life.output.record
        conflict = (first.key, first.value) != (record.record.key, record.record.value)
        if rules.routes_conflicts and conflict:
            return TopicRole.CONFLICTS
        return TopicRole.DUPLICATES if rules.routes_duplicates else None

    def _originals(self, record: InputRecord, life: Life, written: Written) -> list[str]:
        """Return the values that the header for the original may have."""
        if life.input is None:
            return ["unknown"]
        if life.input.topic is not record.topic:
            return ["unknown"]
        allowed = [each.position for each in self._inputs_of(life)]
        learnt = self.lives.is_elsewhere(life) or self.timeline.between(
            life.begin_ms - 1, written.time_ms, EventKind.SESSION_STARTED
        )
        if not self.timeline.is_known_anew(life.output_topic, life.begin_ms):
            allowed.append("unknown")  # its owners were noted for the topic that was deleted
        elif learnt and (
            self.history.rules.delivery is Delivery.AT_LEAST_ONCE
            or self._owners_are_lost(written)
            or self._has_no_entry(life)
        ):
            allowed.append("unknown")
        return allowed

    def _owners_are_lost(self, written: Written) -> bool:
        owners = self.history.of(TopicRole.OWNERS)
        return any(
            (topic.deleted_ms or inf) <= written.time_ms
            or self.timeline.retained_away(TopicRole.OWNERS, topic, 0) <= written.time_ms
            for topic in owners
        )

    def _inputs_of(self, life: Life) -> list[InputRecord]:
        """Return the input records of which one began a life.

        Of equal ones it is any if retention deleted the first: that was fetched before, or the next one passed.
        """
        if life.input is None:
            return []
        topic, offset = life.input.topic, life.input.record.offset
        if self.timeline.retained_away(TopicRole.INPUT, topic, offset) > life.begin_ms:
            return [life.input]
        content = content_of(life.input.record)
        equal = (
            each
            for each in self.inputs[life.input.place :]
            if each.topic is topic and content_of(each.record) == content
        )
        return [each for each in equal if each.written.time_ms <= life.begin_ms]

    def _has_no_entry(self, life: Life) -> bool:
        """Return whether a transaction has no entry, and a reason for that: it was slow, or others wrote among it."""
        number, end_ms = life.output.transaction, life.begin_ms
        entries = [each for topic in self.history.of(TopicRole.OWNERS) for each in topic.records]
        if number is None or any(each.transaction == number for each in entries):
            return False
        here = life.output.record.partition  # an older one, if the id was learnt
        slow = any(
            each.kind in {EventKind.BROKER_AWAY, EventKind.FROZEN}
            and each.partition in {None, here}
            and end_ms - _SLOW_MS < each.time_ms <= end_ms
            for each in self.history.events
        )
        # By offset: what others wrote may be aborted, and so be seen by nobody.
        own = sorted(
            each.record.offset
            for each in life.output_topic.records
            if each.record.partition == here and each.transaction == number
        )
        return slow or own != list(range(own[0], own[0] + len(own)))

    def _was_read_again(
        self,
        record: InputRecord,
        passed: Written,
        found: Sequence[tuple[TopicRole, Written]],
    ) -> bool:
        """Return whether a record that passed may be routed too: it was read again, or passed when it was.

        Without transactions, that is also one whose offset was not committed when the output lost records, when the
        store was lost and with it what is late, or when its id may have been forgotten since.
        """
        first, *_, last = sorted(
            [passed, *(written for _, written in found)], key=lambda each: each.time_ms
        )
        if self.timeline.reads_again(first.time_ms, last.time_ms):
            return True
        start, since = self.timeline.start_of(last), self.timeline.start_of(first)
        volumes = self.timeline.between(
            since, last.time_ms, EventKind.VOLUME_LOST, EventKind.STORE_RESTORED
        )
        late = any(role is TopicRole.LATE for role, _ in found)
        forgotten = self.lives.find(record, last).known is not Known.KNOWN
        return (
            self.history.rules.delivery is Delivery.AT_LEAST_ONCE
            and first.writer != last.writer
            and record.record.offset >= self.timeline.committed(record.topic, start)
            and (
                self.timeline.output_lost(since, last.time_ms)
                or (late and bool(volumes))
                or (last is passed and forgotten and not late)
            )
        )

    def _another_stood_in(
        self,
        record: InputRecord,
        passed: Written,
        found: Sequence[tuple[TopicRole, Written]],
    ) -> bool:
        """Return whether an earlier record was taken for this one, which a killed worker had sent.

        Without transactions, a start drops as many records of an id as the output has, the first ones. An earlier
        record may have been late, say, and was not sent.
        """
        start = self.timeline.start_of(found[0][1])
        committed = self.timeline.committed(record.topic, start)
        return (
            self.history.rules.delivery is Delivery.AT_LEAST_ONCE
            and passed.time_ms < start
            and any(
                each.topic is record.topic
                and each.id == record.id
                and each.record.offset >= committed
                and each.place not in self._passed
                and each.place not in self._routed
                for each in self.inputs[: record.place]
            )
        )

    def _may_come_again(
        self, record: InputRecord, found: Sequence[tuple[TopicRole, Written]]
    ) -> bool:
        """Return whether a record may be routed again.

        Its offset was lost, or, without transactions, not committed.
        """
        first, last = found[0][1].time_ms, found[-1][1].time_ms
        if self.timeline.reads_again(first, last):
            return True
        if self.history.rules.delivery is Delivery.EXACTLY_ONCE:
            return False
        return all(
            record.record.offset
            >= self.timeline.committed(record.topic, self.timeline.start_of(written))
            for _, written in found[1:]
        )

    # -- a record that is not ------------------------------------------------------------------------

    def _judge_unrouted(self, record: InputRecord, verdict: Verdict) -> None:
        rules = self.history.rules
        if rules.observe or record.id is None or not self._was_dropped(record):
            return
        lives = self.lives.before(record, record.processed_ms)
        if not lives or self.lives.find(record).known is Known.GONE:
            return
        first = lives[-1].input
        if record in self._inputs_of(lives[-1]) or (first and first.place > record.place):
            return  # it is the first one, or was taken for it, see `_another_stood_in`
        lost = self.timeline.is_routed or (first and first.written.lost_ms is not None)
        if lost and first and first.position == record.position:
            return  # it has the very place of the lost one that it repeats, see docs/guarantees.md
        if self._is_taken_for(record, lives[-1]):
            return
        role = self._role_of(record, lives[-1])
        if role is not None:
            self._report(verdict, record, None, f"not in {role.value}")

    def _is_taken_for(self, record: InputRecord, life: Life) -> bool:
        """Return whether a repeat may be taken for its original, which was sent without transactions.

        The original expired before its offset was committed, and the session passed none that stands before the repeat.
        """
        first = life.input
        if (
            self.history.rules.delivery is Delivery.EXACTLY_ONCE
            or first is None
            or first.topic is not record.topic
        ):
            return False
        starts = self.timeline.between(-inf, record.processed_ms, EventKind.SESSION_STARTED)
        start_ms = starts[-1].time_ms if starts else -inf
        left = [each for each in self.inputs[first.place : record.place] if not self._expired(each)]
        return (
            life.begin_ms <= start_ms
            and first.record.offset >= self.timeline.committed(first.topic, start_ms)
            and self._expired(first)
            and not any(
                start_ms < self._passed[each.place].time_ms
                for each in left
                if each.place in self._passed
            )
            and all(each.id != record.id for each in left)  # it is taken for it once
        )

    def _expired(self, record: InputRecord) -> bool:
        """Return whether retention deleted a record before its offset was committed."""
        gone = self.timeline.retained_away(TopicRole.INPUT, record.topic, record.record.offset)
        return gone <= record.processed_ms and gone < inf

    def _was_dropped(self, record: InputRecord) -> bool:
        """Return whether a record that did not pass was certainly read."""
        if self._expired(record):
            return False
        if record.topic.deleted_ms is not None:
            return record.processed_ms <= record.topic.deleted_ms
        return record.processed_ms < inf or self.history.rules.drained

    def _report(
        self, verdict: Verdict, record: InputRecord | None, written: Written | None, detail: str
    ) -> None:
        found = record.record if record else written.record if written else None
        assert found is not None
        verdict.misrouted.append(
            Defect(
                partition=self.timeline.partition,
                raw_offset=record.record.offset if record else None,
                clean_offset=None,
                id=self.id_of(found),
                detail=detail if record else f"side offset {found.offset}: {detail}",
            )
        )


def _added(record: Record) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in record.headers if name in ADDED}


def place_of(record: Record) -> str:
    """Return the partition and offset of a record, as a header names them."""
    return f"{record.partition}:{record.offset}"


def _same(record: Record, routed: Record) -> bool:
    return (record.key, record.value, record.timestamp_ms, record.headers) == (
        routed.key,
        routed.value,
        routed.timestamp_ms,
        _without_added(routed.headers),
    )


def _without_added(headers: Headers) -> Headers:
    return tuple(header for header in headers if header[0] not in ADDED)
