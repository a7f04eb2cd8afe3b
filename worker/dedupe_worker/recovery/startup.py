"""Open the store at the start of a session, and catch it up with the output topic.

`Session` calls this once the partition is taken over. The types give the order: only a partition that is `TakenOver`
has an output that stands still, so only its store can be opened, and only an `OpenedStore` can catch up.

Invariants:
  - A store that is not trusted is discarded before the new identity is recorded.
  - The identity names an input topic only when no offset of an earlier one is taken for one of it: the store names
    its input topic, and so does the group's committed offset.
  - The first write to an empty store is its start position, with the marks of what it lacks, on disk before its first
    id. So an interrupted rebuild is continued, and its window still says that it is shorter.
"""

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from threading import Event

import structlog

from dedupe_crds.status.worker import Phase
from dedupe_ids.extract import Extractor
from dedupe_kafka.errors import Stopped, StreamError
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.bootstrap.progress import began_with_past_ids
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.dedup.window import Window
from dedupe_worker.errors import StoreCorrupt
from dedupe_worker.recovery.full_reconcile import remove_work_files
from dedupe_worker.recovery.input_offset import InputStart, begin_input
from dedupe_worker.recovery.lost_output import Lost, find_loss, remember, report
from dedupe_worker.recovery.lost_tail import NOTHING_KNOWN, Known
from dedupe_worker.recovery.output_values import own_values, settled
from dedupe_worker.recovery.reach import reaches_back
from dedupe_worker.recovery.shortened import ShortenedRebuild
from dedupe_worker.recovery.tail import (
    CatchUpPlan,
    Trust,
    begin_rebuild,
    catch_up,
    plan_catch_up,
)
from dedupe_worker.recovery.taken_over import TakenOver
from dedupe_worker.recovery.topic_proof import prove_topics
from dedupe_worker.status import Progress, show_progress
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.checkpoint import (
    CheckpointRecord,
    distrust_checkpoint,
    remove_checkpoint_copy,
    remove_unfinished,
    restore_from_checkpoint,
)
from dedupe_worker.store.metadata import StoreMetadata, last_read_of
from dedupe_worker.store.offset_ranges import decode_ranges
from dedupe_worker.store.state_dir import Identity

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """An open store, and the plan of how it catches up with the output.

    `partition` has the input topic's id of topic_proof.py, where the brokers give none. `read_before` is how far a
    discarded store had read the input.
    """

    store: IdStore
    plan: CatchUpPlan
    partition: TakenOver
    read_before: Known = NOTHING_KNOWN


Learn = Callable[[int], None]


class Startup:
    """Open and catch up the store of one partition, once in each session."""

    def __init__(self, factory: ComponentFactory, extract: Extractor, stop: Event) -> None:
        self._factory = factory
        self._config = factory.config
        self._worker_state = factory.worker_state
        self._clock = factory.clock
        self._layout = factory.policy.layout
        self._extract = extract
        self._stop = stop

    def open_store(self, partition: TakenOver) -> OpenedStore:
        """Open the store and plan how it catches up; discard it if it cannot be trusted."""
        state, window = self._config.state, self._config.stream.spec.store.window
        topics, name, recorded = partition.topics, partition.output_topic.name, partition.recorded
        output_range = settled(self._factory, topics, name)
        oldest = self._clock.now() - window.max_age
        window_start = topics.offset_at(name, self._config.partition, oldest)
        remove_work_files(state.comparison)
        store, trust = None, Trust.WHOLE
        unlabelled = recorded.input_topic_id if recorded else ""
        if recorded is not None:
            remove_unfinished(state)
            remove_checkpoint_copy(state)
            store, trust, checkpoint = self._open_trusted(partition.identity, output_range)
            unlabelled = checkpoint.input_topic_id if checkpoint else unlabelled
        found = store.metadata if store else None
        try:
            proved = prove_topics(self._factory, partition, found, output_range, self._stop)
            anew = proved.output_anew
            lost = self._find_loss(partition, store, output_range, made_anew=anew)
        except (StreamError, Stopped):
            if store is not None:
                store.close()
            raise
        plan = plan_catch_up(
            found,
            recorded=recorded,
            output_topic_id=partition.output_topic.id,
            output=output_range,
            window_start=output_range.end if window_start is None else window_start,
            trust=trust,
            ahead=lost is not None and lost.in_store,
            made_anew=anew,
        )
        shortened = ShortenedRebuild(state)
        if plan.rebuild:
            # The output topic does not have past ids. What a rebuild that was interrupted before its store had a mark
            # was for is gone with the store and the identity before.
            if began_with_past_ids(state, oldest) or shortened.is_recorded:
                new = plan.reason == "NewStore"
                reason = (shortened.reason if new else "") or plan.reason
                plan = replace(plan, truncated=True, reason=reason)
            if plan.truncated:
                _record_shortened(shortened, plan, found, unlabelled)
            if store is not None:
                store.close()
            state.discard_store()
            store = None
        else:
            shortened.forget()  # the store itself says so
        store = store or self._factory.make_store()
        topic = replace(partition.input_topic, id=proved.input_id)
        begin_input(
            *(self._worker_state, topic, store, found),
            unlabelled=unlabelled,
            same_input=partition.same_stream,
            earlier=partition.earlier_inputs,
        )
        partition = replace(partition, input_topic=topic)
        return OpenedStore(store, plan, partition, shortened.read_before(topic.id))

    def _find_loss(
        self, partition: TakenOver, store: IdStore | None, output: OffsetRange, *, made_anew: bool
    ) -> Lost | None:
        """Return what the output has lost, if it is the same topic, and report all losses."""
        lost = None
        if not made_anew:
            lost = find_loss(self._factory, partition, store, output, self._stop)
        if lost is not None:
            remember(self._factory, partition, lost)
        report(self._factory)
        return lost

    def _open_trusted(
        self, identity: Identity, output: OffsetRange
    ) -> tuple[IdStore | None, Trust, CheckpointRecord | None]:
        """Open the store, or its newest checkpoint if it is damaged; None if both are."""
        try:
            return self._factory.make_store(), Trust.WHOLE, None
        except StoreCorrupt as error:
            self._worker_state.errors[error.reason] += 1
            log.error("store is corrupt", error=str(error))
        checkpoint = restore_from_checkpoint(
            self._config.state, identity, output, self._factory.report
        )
        if checkpoint is None:
            return None, Trust.NONE, None
        try:
            return self._factory.make_store(), Trust.CHECKPOINT, checkpoint
        except StoreCorrupt as error:
            log.error("checkpoint is corrupt", error=str(error))
            distrust_checkpoint(self._config.state)
            return None, Trust.NONE, None

    def catch_up(
        self,
        partition: TakenOver,
        plan: CatchUpPlan,
        window: Window,
        start: InputStart,
        *,
        learn: Learn,
    ) -> int:
        """Add the output from the plan's start on to the window; return the output's end.

        `learn` adds the ids of other partitions to a store that is complete up to a position of the own output: first,
        because their records are older. `start` is of the input. The window is not complete if `stop` is set meanwhile.
        """
        output = partition.output_topic.name
        end = partition.topics.offsets(output, self._config.partition).end
        self._worker_state.set_phase(Phase.RECONCILING)
        if plan.rebuild and plan.start > 0 and not plan.truncated:
            whole = reaches_back(self._factory, partition, plan.start, start.offset, self._stop)
            plan = replace(plan, truncated=not whole)
        if plan.rebuild and plan.reason not in {"NewStore", "StoreCorrupt"}:
            self._worker_state.errors[plan.reason] += 1
        log.info(
            "catching up",
            reason=plan.reason,
            start=plan.start,
            end=end,
            truncated=plan.truncated,
        )
        begin: Callable[[int], None] | None = None
        if plan.rebuild:

            def begin(first_ms: int) -> None:
                self._begin(plan, window, start, first_ms)
                learn(plan.start)

        if plan.start >= end:  # what it learns is shown then
            show_progress(self._worker_state, plan.reason, Progress(0, 0, 0.0))
        if begin is None:
            learn(plan.start)
        if plan.start < end:
            self._read_tail(partition, plan, window, start, end, begin)
        elif begin:
            begin(self._clock.time_ms())
        if self._worker_state.reconcile:
            log.info("caught up", **self._worker_state.reconcile.model_dump())
        return end

    def _begin(self, plan: CatchUpPlan, window: Window, start: InputStart, first_ms: int) -> None:
        begin_rebuild(
            window,
            start=plan.start,
            input_offset=start.offset,
            last_read=start.last_read,
            truncated=plan.truncated,
            first_ms=first_ms,
            now_ms=self._clock.time_ms(),
        )
        ShortenedRebuild(self._config.state).forget()

    def _read_tail(  # noqa: PLR0917 (of one catch-up, each once)
        self,
        partition: TakenOver,
        plan: CatchUpPlan,
        window: Window,
        start: InputStart,
        end: int,
        begin: Callable[[int], None] | None,
    ) -> None:
        metadata = window.store.metadata
        with ExitStack() as readers:
            reader = readers.enter_context(
                closing(self._factory.make_reader(partition.output_topic.name))
            )
            reader.seek(plan.start)
            catch_up(
                reader,
                window,
                self._extract,
                own_values(self._factory, partition, window, readers, rebuild=plan.rebuild),
                start=plan.start,
                end=end,
                begin=begin,
                input_offset=start.offset,
                last_read=start.last_read,
                stop=self._stop,
                clock=self._clock,
                on_progress=partial(show_progress, self._worker_state, plan.reason),
                own=decode_ranges(metadata.own_output) if metadata and not begin else (),
            )


def _record_shortened(
    shortened: ShortenedRebuild,
    plan: CatchUpPlan,
    metadata: StoreMetadata | None,
    unlabelled: str,
) -> None:
    """Record that the window is shorter, why, and how far the store had read.

    A store whose output position is beyond the output says nothing of this input either. Without a store the record of
    a rebuild that was interrupted stays.
    """
    if metadata and plan.reason != "StoreAheadOfOutput":
        known = Known(metadata.input_offset, last_read_of(metadata))
        shortened.record(plan.reason, known, metadata.input_topic or unlabelled)
    elif not shortened.is_recorded:
        shortened.record(plan.reason)
