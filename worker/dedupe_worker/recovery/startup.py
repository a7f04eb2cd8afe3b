"""Open the store at the start of a session, and catch it up with the output topic.

`Session` calls this once the partition is taken over. The types give the order: only a partition that is `TakenOver`
has an output that stands still, so only its store can be opened, and only an `OpenedStore` can catch up.

Invariants:
  - A store that is not trusted is discarded before the new identity is recorded.
  - The first write to an empty store is its start position, so that an interrupted rebuild is continued.
"""

from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from threading import Event

import structlog

from dedupe_crds.status.worker import Phase
from dedupe_ids.extract import Extractor
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_kafka.offsets import OffsetRange
from dedupe_kafka.side_topics import needs_owner_log, owners_topic
from dedupe_worker.bootstrap.progress import began_with_past_ids
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.dedup.window import Window
from dedupe_worker.errors import StoreCorrupt
from dedupe_worker.kafka.admin import Topic, Topics
from dedupe_worker.kafka.consumer import Committed, PartitionReader
from dedupe_worker.recovery.full_reconcile import remove_work_files
from dedupe_worker.recovery.tail import CatchUpPlan, Trust, catch_up, plan_catch_up, plan_start
from dedupe_worker.side_topics.owner_log import CLOCK_SKEW, OutputValues, OwnerLogReader
from dedupe_worker.status import Progress, show_progress
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.checkpoint import (
    remove_checkpoint_copy,
    remove_unfinished,
    restore_from_checkpoint,
)
from dedupe_worker.store.metadata import StoreMetadata
from dedupe_worker.store.state_dir import Identity

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """A partition whose older worker is fenced, with its topics as they are now.

    `identity` is of these topics, `recorded` the identity on the volume before, None on an empty volume.
    """

    topics: Topics
    input_topic: Topic
    output_topic: Topic
    identity: Identity
    recorded: Identity | None

    @property
    def same_input(self) -> bool:
        """Return whether recorded input offsets are of the input topic as it is now."""
        return self.recorded is None or self.recorded.input_topic_id == self.input_topic.id


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """An open store, and the plan of how it catches up with the output."""

    store: IdStore
    plan: CatchUpPlan


@dataclass(frozen=True, slots=True)
class InputStart:
    """The input offset at which to continue.

    `committed` is the group's committed offset, `end` the partition's end at this start.
    """

    offset: int
    committed: Committed | None
    end: int


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
        output_range = topics.offsets(name, self._config.partition)
        oldest = self._clock.now() - window.max_age
        window_start = topics.offset_at(name, self._config.partition, oldest)
        remove_work_files(state.comparison)
        store, trust = None, Trust.WHOLE
        if recorded is not None:
            remove_unfinished(state)
            remove_checkpoint_copy(state)
            store, trust = self._open_trusted(partition.identity, output_range)
        plan = plan_catch_up(
            store.metadata if store else None,
            recorded=recorded,
            output_topic_id=partition.output_topic.id,
            output=output_range,
            window_start=output_range.end if window_start is None else window_start,
            trust=trust,
            reach=store.reach if store else 0,
        )
        if plan.rebuild:
            if began_with_past_ids(state, oldest):
                plan = replace(plan, truncated=True)  # the output topic does not have those
            if store is not None:
                store.close()
            state.discard_store()
            store = None
        if recorded != partition.identity:
            state.record(partition.identity)
        return OpenedStore(store or self._factory.make_store(), plan)

    def _open_trusted(
        self, identity: Identity, output: OffsetRange
    ) -> tuple[IdStore | None, Trust]:
        """Open the store, or its newest checkpoint if it is damaged; None if both are."""
        try:
            return self._factory.make_store(), Trust.WHOLE
        except StoreCorrupt as error:
            self._worker_state.errors[error.reason] += 1
            log.error("store is corrupt", error=str(error))
        if not restore_from_checkpoint(self._config.state, identity, output):
            return None, Trust.NONE
        try:
            return self._factory.make_store(), Trust.CHECKPOINT
        except StoreCorrupt as error:
            log.error("checkpoint is corrupt", error=str(error))
            return None, Trust.NONE

    def find_start(
        self, partition: TakenOver, reader: PartitionReader, store: IdStore
    ) -> InputStart:
        """Find the input offset at which to continue."""
        committed = self._committed(partition, reader) if partition.same_input else None
        available = partition.topics.offsets(partition.input_topic.name, self._config.partition)
        start = plan_start(
            committed=committed.offset if committed else None,
            metadata=store.metadata,
            same_input=partition.same_input,
            available=available,
        )
        if start.expired:
            self._worker_state.tally.expired_offsets += start.expired
            log.error("input records expired before they were read", offsets=start.expired)
        return InputStart(start.offset, committed, available.end)

    def _committed(self, partition: TakenOver, reader: PartitionReader) -> Committed | None:
        try:
            return reader.committed()
        except BrokerUnavailable:
            partition.topics.check_group(self._config.group)
            raise

    def catch_up(
        self, partition: TakenOver, plan: CatchUpPlan, window: Window, input_offset: int
    ) -> int:
        """Add the output from the plan's start on to the window; return the output's end.

        The window is not complete if `stop` is set meanwhile.
        """
        output = partition.output_topic.name
        end = partition.topics.offsets(output, self._config.partition).end
        self._worker_state.set_phase(Phase.RECONCILING)
        if plan.rebuild and plan.reason not in {"NewStore", "StoreCorrupt"}:
            self._worker_state.errors[plan.reason] += 1
        log.info(
            "catching up",
            reason=plan.reason,
            start=plan.start,
            end=end,
            truncated=plan.truncated,
        )
        now_ms = self._clock.time_ms()
        if plan.rebuild or window.store.metadata is None:
            # Before the first id, because a rebuild can be interrupted: with this metadata the next start reads only
            # what comes after.
            window.commit(
                output_position=plan.start,
                input_offset=input_offset,
                seen_ms=now_ms,
                newest_ms=0,
            )
        if plan.truncated:
            window.store.mark_truncated()
        if plan.start < end:
            self._read_tail(partition, plan, window, input_offset, end)
        else:
            if plan.rebuild and plan.start > 0:
                window.store.mark_forgotten(now_ms)
            show_progress(self._worker_state, plan.reason, Progress(0, 0, 0.0))
        if self._worker_state.reconcile:
            log.info("caught up", **self._worker_state.reconcile.model_dump())
        return end

    def _read_tail(
        self,
        partition: TakenOver,
        plan: CatchUpPlan,
        window: Window,
        input_offset: int,
        end: int,
    ) -> None:
        with ExitStack() as readers:
            reader = readers.enter_context(
                closing(self._factory.make_reader(partition.output_topic.name))
            )
            reader.seek(plan.start)
            catch_up(
                reader,
                window,
                self._extract,
                self._output_values(partition, plan, window.store.metadata, readers),
                start=plan.start,
                end=end,
                forgets=plan.rebuild and plan.start > 0,
                input_offset=input_offset,
                stop=self._stop,
                clock=self._clock,
                on_progress=partial(show_progress, self._worker_state, plan.reason),
            )

    def _output_values(
        self,
        partition: TakenOver,
        plan: CatchUpPlan,
        metadata: StoreMetadata | None,
        readers: ExitStack,
    ) -> OutputValues:
        """Make the reader of the values of output records; `readers` closes its consumer."""
        number, owner_log = self._config.partition, None
        if needs_owner_log(self._config.stream.spec):
            topic = owners_topic(partition.output_topic.name)
            there = partition.topics.offsets(topic, number)
            start: int | None = there.low
            if metadata and not plan.rebuild:
                since = datetime.fromtimestamp(metadata.last_seen_ms / 1000, UTC) - CLOCK_SKEW
                start = partition.topics.offset_at(topic, number, since)
            reader = readers.enter_context(closing(self._factory.make_reader(topic)))
            reader.seek(there.end if start is None else start)
            rewind = None if start == there.low else partial(reader.seek, there.low)
            owner_log = OwnerLogReader(reader, there.end, partition.output_topic.id, rewind=rewind)
        return OutputValues(self._layout, partition=number, owner_log=owner_log)
