"""Judge what the workers of one partition said: each loss has a named reason, and each reason has a cause."""

from collections.abc import Iterable
from itertools import pairwise
from math import inf

from tests.support.checker.checker import Defect, Verdict
from tests.support.checker.outside import EventKind, OutsideEvent, StatusSnapshot, TopicRole
from tests.support.checker.timeline import Timeline

RUNNING = "Running"
_EXPIRED = "InputExpired"
_TRUNCATED = "InputTruncated"
_REPLACED = "OutputTopicReplaced"
_AT_ONCE = "GenerationsDropped"
_REPLACED_TOPIC = {
    "OutputTopicReplaced": (TopicRole.OUTPUT,),
    "StoreAheadOfOutput": (TopicRole.OUTPUT,),
    "OutputTruncated": (TopicRole.OUTPUT,),
    "InputTruncated": (TopicRole.INPUT,),
    "OffsetOutOfRange": (TopicRole.INPUT, TopicRole.OUTPUT),
}
"""Reasons that a topic's second incarnation explains. A start reads the output, too."""
_CAUSES = {
    "StoreAheadOfOutput": (EventKind.STORE_RESTORED,),
    "OutputTruncated": (EventKind.STORE_RESTORED,),
    "InputTruncated": (EventKind.STORE_RESTORED, EventKind.TAIL_LOST),
    "TailRetainedAway": (EventKind.RETENTION,),
    "InputExpired": (EventKind.RETENTION,),
    "OffsetOutOfRange": (EventKind.RETENTION, EventKind.TAIL_LOST),
    "RecordCorrupt": (EventKind.DAMAGED,),
    "StoreCorrupt": (EventKind.STORE_DAMAGED, EventKind.UNSYNCED_LOST),
}
"""Reasons that an event explains."""
_RETAINED = {
    "TailRetainedAway": TopicRole.OUTPUT,
    "InputExpired": TopicRole.INPUT,
}
"""Reasons that retention of this topic only explains."""
_UNNOTICED_MS = 90_000
"""A running worker notices sooner that a topic was created again. It looks every 10 s, unless it stands still."""
_NOT_REBUILT = frozenset({None, "Tail", "Checkpoint"})


def judge_statuses(timeline: Timeline, expired: int, verdict: Verdict) -> None:
    """Add what was not said, and what was said without cause. `expired` counts records that were not read."""
    if not timeline.statuses:
        if expired:
            _add(verdict.silent, timeline, f"{expired} records expired, and there is no status")
        return
    _judge_expired(timeline, expired, verdict)
    _judge_truncated(timeline, verdict)
    _judge_replaced(timeline, verdict)
    _judge_unnoticed(timeline, verdict)
    _judge_lost_volumes(timeline, verdict)
    _judge_dropped_generations(timeline, verdict)
    _judge_causes(timeline, verdict)


def _judge_expired(timeline: Timeline, expired: int, verdict: Verdict) -> None:
    counted = sum(last.expired_offsets for last in _last_of_each_process(timeline.statuses))
    if counted < expired:
        _add(verdict.silent, timeline, f"{expired} records expired, and {counted} offsets counted")
    listed = any(_EXPIRED in each.degraded for each in timeline.statuses)
    if expired and not listed:
        _add(verdict.silent, timeline, f"{expired} records expired, and {_EXPIRED} is not listed")


def _judge_truncated(timeline: Timeline, verdict: Verdict) -> None:
    """Each loss of input that was read is named, or that its retention has come further since.

    Not if the topic was deleted since, nor if a store may be older than the loss and nothing else says how far the
    input was read.
    """
    for topic in timeline.inputs:
        here = (each for each in topic.records if each.record.partition == timeline.partition)
        for lost_ms in sorted({each.lost_ms for each in here if each.lost_ms is not None}):
            if topic.deleted_ms or timeline.between(lost_ms, inf, EventKind.OFFSETS_LOST):
                continue
            retained = timeline.between(lost_ms, inf, EventKind.RETENTION)
            names = {_TRUNCATED}
            if any(each.topic is TopicRole.INPUT for each in retained):
                names.add(_EXPIRED)
            said = (
                name
                for each in timeline.seen(lost_ms)
                for name in (each.reason, *each.degraded, *each.errors)
            )
            if names.isdisjoint(said):
                detail = f"input that was read was lost, and no status says {sorted(names)}"
                _add(verdict.silent, timeline, detail)


def _judge_replaced(timeline: Timeline, verdict: Verdict) -> None:
    """Each new output topic that a worker found after it knew another is named."""
    for old in timeline.outputs:
        found = timeline.find_replacement(old)
        later = [each.created_ms for each in timeline.outputs if each.created_ms > old.created_ms]
        known = [
            each
            for each in timeline.seen(old.created_ms, old.deleted_ms or inf)
            if each.phase == RUNNING
        ]
        if found == inf or not known:
            continue
        # A worker that runs on beside another one may know the topic after that one's volume was lost.
        begun = _begin_of(timeline, known[-1])
        restored = timeline.between(begun, found, EventKind.STORE_RESTORED)
        if timeline.between(begun, found, EventKind.VOLUME_LOST) or any(
            not _had_store(timeline, each.as_of_ms) for each in restored
        ):
            continue  # then it was a new store
        said = [
            each
            for each in timeline.seen(later[0])
            if each.catch_up == _REPLACED or _REPLACED in each.errors
        ]
        if not said:
            _add(verdict.silent, timeline, f"no status says {_REPLACED}")


def _begin_of(timeline: Timeline, status: StatusSnapshot) -> float:
    """Return when the process of a status began."""
    begun = timeline.of(EventKind.WORKER_STARTED)
    return next((each.time_ms for each in begun if each.process == status.process), status.time_ms)


def _had_store(timeline: Timeline, at_ms: int) -> bool:
    """Return whether the volume had a store at a time: a worker had run on it."""
    lost = timeline.between(-inf, at_ms, EventKind.VOLUME_LOST)
    since = lost[-1].time_ms if lost else -inf
    return any(each.phase == RUNNING for each in timeline.seen(since, at_ms))


def _judge_unnoticed(timeline: Timeline, verdict: Verdict) -> None:
    """Add each session that runs on for long though a topic was created again after its start."""
    for topic in [*timeline.inputs[1:], *timeline.outputs[1:]]:
        for status in timeline.seen(topic.created_ms + _UNNOTICED_MS):
            since = timeline.between(-inf, status.time_ms, EventKind.SESSION_STARTED)
            own = [each.time_ms for each in since if each.process == status.process]
            if status.phase != RUNNING or not own or own[-1] >= topic.created_ms:
                continue
            # Also in the millisecond of its start: what a session finds after that may be minutes later.
            if not timeline.between(own[-1] - 1, status.time_ms, EventKind.FROZEN):
                seconds = (status.time_ms - topic.created_ms) / 1000
                detail = f"{status.process} runs {seconds:.0f} s after {topic.topic_id} was created"
                _add(verdict.silent, timeline, detail)


def _judge_lost_volumes(timeline: Timeline, verdict: Verdict) -> None:
    for event in timeline.of(EventKind.VOLUME_LOST):
        restored = timeline.between(event.time_ms - 1, inf, EventKind.STORE_RESTORED)
        # An older process has a volume of its own, and may run on for a while, or begin its first session now.
        begun = timeline.of(event.kind, EventKind.WORKER_STARTED, EventKind.SESSION_STARTED)
        older = {each.process for each in begun[: begun.index(event)]}
        said = [each for each in timeline.seen(event.time_ms) if each.process not in older]
        running = next((each.time_ms for each in said if each.phase == RUNNING), inf)
        if running == inf or (restored and restored[0].time_ms <= running):
            continue
        if all(each.catch_up in _NOT_REBUILT for each in said if each.time_ms <= running):
            _add(verdict.silent, timeline, "the store was lost, and no status says NewStore")


def _judge_dropped_generations(timeline: Timeline, verdict: Verdict) -> None:
    """Several generations that are gone after less than one's time were dropped at once."""
    bounds = timeline.rules.bounds
    if bounds is None or bounds.generation_ms is None:
        return
    for before, after in pairwise(timeline.statuses):
        if before.process != after.process or after.phase != RUNNING or before.phase != RUNNING:
            continue
        if timeline.between(before.time_ms, after.time_ms, EventKind.SESSION_STARTED):
            continue
        dropped = before.generations - after.generations
        short = after.time_ms - before.time_ms < bounds.generation_ms
        if bounds.keep_ids is not None and timeline.written(after.time_ms) > bounds.keep_ids:
            continue  # for their size, one after the other
        if dropped > 1 and short and _AT_ONCE not in after.degraded:
            _add(
                verdict.silent,
                timeline,
                f"{dropped} generations dropped at once, and {_AT_ONCE} is not listed",
            )


def _judge_causes(timeline: Timeline, verdict: Verdict) -> None:
    said: set[tuple[str, str]] = set()
    for status in timeline.statuses:
        for reason in {status.catch_up, status.reason, *status.degraded, *status.errors}:
            if reason is None or (status.process, reason) in said:
                continue
            said.add((status.process, reason))
            if not _has_cause(timeline, status, reason):
                _add(verdict.unfounded, timeline, f"{status.process} says {reason} without cause")


def _has_cause(timeline: Timeline, status: StatusSnapshot, reason: str) -> bool:
    """Return whether something happened before a status that explains its reason."""
    if reason == "Fenced":
        return _has_rival(timeline, status)
    if reason == "OffsetOutOfRange" and timeline.is_routed and _has_another(timeline, status):
        return True  # it deletes what it has committed of the repartition topic, and this one has not read
    if reason not in _CAUSES and reason not in _REPLACED_TOPIC:
        return True
    topics = {TopicRole.INPUT: timeline.inputs, TopicRole.OUTPUT: timeline.outputs}
    for role in _REPLACED_TOPIC.get(reason, ()):
        if sum(topic.created_ms <= status.time_ms for topic in topics[role]) > 1:
            return True
    return any(
        _RETAINED.get(reason, event.topic) is event.topic
        for event in timeline.between(-inf, status.time_ms, *_CAUSES.get(reason, ()))
    )


def _has_another(timeline: Timeline, status: StatusSnapshot) -> bool:
    """Return whether another process of the partition has begun a session."""
    return any(
        each.process != status.process and each.time_ms <= status.time_ms
        for each in timeline.starts
    )


def _has_rival(timeline: Timeline, status: StatusSnapshot) -> bool:
    """Return whether another process began a session after this one's first, or took over after that."""
    starts: list[OutsideEvent] = timeline.between(-inf, status.time_ms, EventKind.SESSION_STARTED)
    own = min((each.time_ms for each in starts if each.process == status.process), default=0)
    for start in starts:
        if start.process != status.process:
            running = (
                each.time_ms
                for each in timeline.seen(start.time_ms, status.time_ms)
                if each.process == start.process and each.phase == RUNNING
            )
            # A session may stand still before it takes over.
            if max(start.time_ms, next(running, -1)) >= own:
                return True
    return False


def _last_of_each_process(statuses: Iterable[StatusSnapshot]) -> list[StatusSnapshot]:
    return list({each.process: each for each in statuses}.values())


def _add(defects: list[Defect], timeline: Timeline, detail: str) -> None:
    defects.append(
        Defect(
            partition=timeline.partition,
            raw_offset=None,
            clean_offset=None,
            id=None,
            detail=detail,
        )
    )
