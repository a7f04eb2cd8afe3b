"""Judge the history of a world with the checker, which shares no code with the worker."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import Final, Self

from tests.simulation.recorder import Recorder
from tests.simulation.schedule.settings import (
    EPOCHS,
    OUTPUT,
    REPARTITION,
    Settings,
    input_topic,
)
from tests.support.checker.checker import Defect, Repeats, Verdict
from tests.support.checker.id_sources import IdOf, content_id, header_id, key_id
from tests.support.checker.key_order import judge_key_order
from tests.support.checker.outside import TopicRole, WindowBounds
from tests.support.checker.record import Message, Record
from tests.support.checker.repartitioned import judge_repartitioned
from tests.support.checker.routing import Origin, judge_routing, origin_of
from tests.support.checker.streams import judge_stream
from tests.support.checker.topic_history import Delivery, Incarnation, Rules, StreamHistory, Written

_LEARNT_AT_ONCE: Final = 20
"""A start reads some records of the output, and writes as many ids: see sizes.py."""

MARK: Final = "dedupe-epoch"
"""The header of a mark in the repartition topic."""


Judgement = tuple[list[str], Repeats]
"""What is wrong, a line for each kind of defect, and the repeats that were met."""


def judge_direct(recorder: Recorder, settings: Settings) -> Judgement:
    """Judge a stream whose workers read the input."""
    history = StreamHistory(
        rules=_rules(settings),
        topics=recorder.incarnations(),
        progress=recorder.progress,
        events=recorder.events,
        statuses=recorder.statuses,
    )
    verdict = judge_stream(history, _id_of(settings))
    return _lines(verdict), verdict.repeats


def judge_routed(recorder: Recorder, settings: Settings) -> Judgement:
    """Judge a stream with routers: what they wrote, how the workers passed it on, and both together.

    Without transactions, and with a table that forgets, only the second judge knows which records may pass twice.
    """
    raw = _raw(recorder, settings)
    start = _Start.of(recorder)
    left = {**raw, input_topic(0): start.left_to_routers(raw[input_topic(0)])}
    routed = _routed(recorder)
    losses = _Losses.of(recorder, raw, routed)
    again = _never if settings.exactly_once else _Again.of(recorder).may_come
    routing = judge_routing(
        left if settings.direct else raw, losses.routed_rest, may_come_again=again
    )
    routing.duplicated += losses.duplicated
    id_of = _id_of(settings)
    passing = judge_stream(_history_behind_routers(recorder, settings, start), id_of)
    # Where all records pass, each counts as one without an id.
    counted: IdOf = _nameless if settings.observes else id_of
    written = [(each.time_ms, each.record) for each in recorder.written(OUTPUT)]
    written.sort(key=lambda each: each[0])  # of several copies the one that passed first
    counting = losses.all_that_counts
    output = judge_repartitioned(
        counting,
        [record for _, record in written],
        counted,
        ordered_by=lambda _: None,  # whatever of an input partition goes to one output partition
    )
    if not settings.exactly_once or settings.table_slots:
        output.duplicated.clear()
        # A record without an id that passes again has no first copy left to be compared with.
        output.foreign[:] = [each for each in output.foreign if each.id is not None]
    elif settings.by_key:
        output.reordered += judge_key_order(counting, written, counted)
    lines = [*(f"routing {line}" for line in _lines(routing)), *_lines(passing), *_lines(output)]
    return lines, passing.repeats


def _routed(recorder: Recorder) -> list[Record]:
    """Return the records of the repartition topic, each where it is passed or dropped."""
    return [each.record for each in _in_place(recorder.written(REPARTITION))]


def _in_place(written: Sequence[Written]) -> list[Written]:
    """Return the records of the repartition topic without marks between epochs, and without strays.

    A stray is in a partition that its id had in an earlier epoch, and its worker sends it on to the present one. Only
    without transactions a router may still write one after the epoch has ended.
    """
    records = [each for each in written if MARK not in dict(each.record.headers)]
    sent_on = {
        (origin_of(each.record), int(each.writer[1:].partition("#")[0]))
        for each in records
        if each.writer.startswith("p")
    }
    return [
        each for each in records if (origin_of(each.record), each.record.partition) not in sent_on
    ]


def _raw(recorder: Recorder, settings: Settings) -> dict[str, list[Record]]:
    """Return the records of the inputs that are to be routed.

    Of an input that the manifest names no more, those up to the last one that was routed.
    """
    ends: defaultdict[tuple[str, int], int] = defaultdict(int)
    for _, topic, partition, offset in recorder.routed:
        ends[topic, partition] = max(ends[topic, partition], offset)
    for topic, partition, offset in map(origin_of, _routed(recorder)):
        ends[topic, partition] = max(ends[topic, partition], offset + 1)
    return {
        topic: [
            each
            for each in recorder.records(topic)
            if topic in recorder.inputs or each.offset < ends[topic, each.partition]
        ]
        for topic in settings.input_topics
    }


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a stream that ran without routers got them: offsets of its input and of its output, by partition."""

    inputs: Mapping[int, int]
    outputs: Mapping[int, int]
    time_ms: int | None

    @classmethod
    def of(cls, recorder: Recorder) -> Self:
        """Read it in the epoch log."""
        for each in recorder.written(EPOCHS):
            entry = json.loads(each.record.value or b"{}")
            if entry["entry"] == "handed-over":
                starts = entry["starts"].items()
                return cls(
                    inputs={int(partition): start["offset"] for partition, start in starts},
                    outputs={int(partition): cut for partition, cut in entry["cuts"].items()},
                    time_ms=each.time_ms,
                )
        return cls({}, {}, None)

    def left_to_routers(self, records: Iterable[Record]) -> list[Record]:
        """Return what workers without routers have not read."""
        return [each for each in records if each.offset >= self.inputs.get(each.partition, 0)]

    def before_routers(self, topic: Incarnation, settings: Settings) -> Incarnation:
        """Return what workers without routers have read.

        Without transactions they may have sent more than they committed. The routers read that again: so for these
        workers it is as if the topic had been deleted then.
        """
        if not settings.exactly_once:
            return replace(topic, deleted_ms=self.time_ms)
        records = [
            each
            for each in topic.records
            if each.record.offset < self.inputs.get(each.record.partition, 0)
        ]
        return replace(topic, records=records)


def _history_behind_routers(recorder: Recorder, settings: Settings, start: _Start) -> StreamHistory:
    """Return the history of what workers read and wrote: for each the repartition topic is the input.

    What they read before there were routers is an input before that one.
    """
    inputs, others = [], []
    for topic in recorder.incarnations():
        name = topic.topic_id.rpartition("-")[0]
        if name == REPARTITION:
            # As if it were there from the beginning: nobody must notice that it is new.
            inputs.append(replace(topic, created_ms=0, records=_without_origins(topic.records)))
        elif settings.direct and name == input_topic(0):
            inputs.insert(0, start.before_routers(topic, settings))
        elif topic.role is not TopicRole.INPUT:
            others.append(topic)
    return StreamHistory(
        rules=_rules(settings),
        topics=[*inputs, *others],
        progress=recorder.progress,
        events=recorder.events,
        statuses=recorder.statuses,
        routers=True,
        cuts=start.outputs,
    )


def _without_origins(records: Sequence[Written]) -> list[Written]:
    """Return the records as their producers wrote them, see `_in_place`.

    In order of offsets: transactions of several routers end in another order than they began.
    """
    found = []
    in_place = _in_place(records)
    for each in sorted(in_place, key=lambda each: (each.record.partition, each.record.offset)):
        topic, partition, offset = origin_of(each.record)
        record = replace(each.record, headers=each.record.headers[:-1])
        found.append(replace(each, record=record, origin=f"{topic}:{partition}:{offset}"))
    return found


@dataclass(frozen=True, slots=True)
class _Losses:
    """Tell what inputs have lost, and what of it routers had read before.

    Another record has the same origin afterwards, so what was routed is told apart by its content as well.
    `all_that_counts` has the records that are there or were routed, numbered in the order in which they were written:
    what was lost before it was routed is no promise.
    """

    routed_rest: Sequence[Record]
    duplicated: Sequence[Defect]
    all_that_counts: Mapping[str, Sequence[Record]]

    @classmethod
    def of(
        cls,
        recorder: Recorder,
        raw: Mapping[str, Sequence[Record]],
        routed: Sequence[Record],
    ) -> Self:
        """Find what was lost among what was routed."""
        lost = {topic: recorder.lost(topic) for topic in raw}
        if not any(lost.values()):
            return cls(routed, (), raw)
        there = {_identity(topic, each) for topic, found in raw.items() for each in found}
        gone = {
            _identity(topic, each.record) for topic, found in lost.items() for each in found
        } - there
        rest: list[Record] = []
        duplicated: list[Defect] = []
        seen: set[tuple[object, ...]] = set()
        for each in routed:
            topic, partition, offset = origin_of(each)
            headers = each.headers[:-1]
            read = replace(each, partition=partition, offset=offset, headers=headers)
            identity = _identity(topic, read)
            if identity not in gone:
                rest.append(each)
            elif identity in seen:
                duplicated.append(Defect(each.partition, offset, each.offset, None, f"of {topic}"))
            seen.add(identity)
        counted = {
            topic: _renumbered(
                [
                    *recorder.written(topic),
                    *[each for each in found if _identity(topic, each.record) in seen],
                ]
            )
            for topic, found in lost.items()
        }
        return cls(rest, duplicated, counted)


def _identity(topic: str, record: Record) -> tuple[object, ...]:
    place = topic, record.partition, record.offset
    return *place, record.key, record.value, record.headers, record.timestamp_ms


def _renumbered(found: Iterable[Written]) -> list[Record]:
    """Return the records in the order in which they were written, with numbers for offsets."""
    found = sorted(found, key=lambda each: (each.time_ms, each.record.offset))
    return [replace(each.record, offset=number) for number, each in enumerate(found)]


@dataclass(frozen=True, slots=True)
class _Again:
    """What routers without transactions may route again.

    That is what was written, and not committed: after a failure by the process that wrote it, or when the process began
    that has written it again.
    """

    copies: Mapping[Origin, Sequence[Written]]
    committed: Sequence[tuple[int, str, int, int]]
    starts: Mapping[str, int]

    @classmethod
    def of(cls, recorder: Recorder) -> Self:
        """Find all that was routed more than once."""
        copies: defaultdict[Origin, list[Written]] = defaultdict(list)
        for each in recorder.written(REPARTITION):
            process, _, _ = each.writer.rpartition(".")
            if MARK not in dict(each.record.headers) and process in recorder.starts:
                copies[origin_of(each.record)].append(each)
        several = {
            origin: sorted(found, key=lambda each: each.time_ms)
            for origin, found in copies.items()
            if len(found) > 1
        }
        return cls(several, recorder.routed, recorder.starts)

    def may_come(self, origin: Origin) -> bool:
        """Return whether each further copy of a record is right."""
        topic, partition, offset = origin
        times = (
            time_ms
            for time_ms, *place, end in self.committed
            if place == [topic, partition] and end > offset
        )
        committed_ms = next(times, inf)
        return all(
            before.writer != after.writer and committed_ms >= self._read_ms(before, after)
            for before, after in pairwise(self.copies.get(origin, ()))
        )

    def _read_ms(self, before: Written, after: Written) -> int:
        """Return when a record was read again, or a time before."""
        process, _, _ = after.writer.rpartition(".")
        same = before.writer.startswith(f"{process}.")
        return after.time_ms if same else self.starts[process]


def _never(_: Origin) -> bool:
    return False


def _nameless(_: Record | Message) -> None:
    return None


def _lines(verdict: Verdict) -> list[str]:
    return [
        f"{kind}: {found[0]}" + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")
        for kind, found in verdict.defects.items()
    ]


def _rules(settings: Settings) -> Rules:
    generation_ids = settings.window_ids // settings.generations
    return Rules(
        bounds=WindowBounds(
            keep_ms=settings.max_age_seconds * 1000,
            generation_ms=settings.max_age_seconds * 1000 // settings.generations,
            # The oldest generation goes as a whole, and had less than its size before the transaction.
            keep_ids=settings.window_ids - generation_ids,
            learnt_at_once=_LEARNT_AT_ONCE,
            all_ids=settings.window_ids,
        ),
        delivery=Delivery.EXACTLY_ONCE if settings.exactly_once else Delivery.AT_LEAST_ONCE,
        observe=settings.observes,
        table_slots=settings.table_slots,
        routes_duplicates=settings.duplicates,
        routes_conflicts=settings.conflicts,
        routes_late=settings.late,
    )


def _id_of(settings: Settings) -> IdOf:
    match settings.id_from:
        case "Header":
            return header_id("id")
        case "Content":
            return content_id
    return key_id
