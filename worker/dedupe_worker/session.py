"""From nothing to a running loop and back: what happens once after every start and after every failure.

    1  see whose volume this is, and fill an empty one from a snapshot if so told; take over the partition (fences an
       older worker, aborts what it left open)
    2  see what the topics are now
    3  open the store, or discard it if it can't be trusted
    4  reconcile it with the output topic, the whole of it if that was asked for
    5  run the loop until told to stop, or to reconcile

A failure anywhere ends the session with a named error; the next session begins at 1 and finds out from Kafka what
was committed. There is no other error handling to get wrong.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from threading import Event
from types import TracebackType
from typing import Final

import structlog

from dedupe_crds.status.worker import Phase
from dedupe_ids.extract import extractor_for
from dedupe_kafka.errors import BrokerUnavailable, Fenced, NotAuthorized, StreamError
from dedupe_kafka.side_topics import notes_owners, owners_topic, routed_topics
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.admin.desk import Desk
from dedupe_worker.bootstrap.progress import began_with_past_ids
from dedupe_worker.component_factory import Parts
from dedupe_worker.dedup.classify import Admission
from dedupe_worker.dedup.judge import policy_of
from dedupe_worker.dedup.loop import Loop, LoopConfig
from dedupe_worker.dedup.redelivery import InDoubt, ids_between, note_of, noted_position
from dedupe_worker.dedup.window import Window, window_status
from dedupe_worker.errors import OutputTopicReplaced, StoreCorrupt
from dedupe_worker.kafka.admin import Range, Topic, Topics
from dedupe_worker.kafka.consumer import Committed, PartitionReader
from dedupe_worker.kafka.producer import PartitionOutput
from dedupe_worker.kafka.rights import needed_rights
from dedupe_worker.recovery.full_reconcile import remove_comparison
from dedupe_worker.recovery.on_demand import answer, show_reconcile
from dedupe_worker.recovery.tail import (
    Progress,
    ReconcilePlan,
    Trust,
    plan_reconcile,
    plan_start,
    reconcile,
)
from dedupe_worker.side_topics.owner_log import EARLIER, Notes, Recall
from dedupe_worker.side_topics.writers import logs_of
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.checkpoint import remove_unfinished
from dedupe_worker.store.fallback import fall_back, remove_copy
from dedupe_worker.store.metadata import Stamp
from dedupe_worker.store.state_dir import Identity, id_source_text

_HOUSEKEEPING_SECONDS: Final = 1.0
_TOPIC_CHECK_SECONDS: Final = 10.0
# Of the time, while a store that was opened after a crash has ids to read into its filters.
_REFILL_SHARE: Final = 0.25

# Stores whose files belong to another worker by now. They stay open until the process ends, which is at once.
_taken_over: Final[list[IdStore]] = []

log = structlog.get_logger()


class Session:
    """One run of the steps above. `record_limit` bounds its transactions, see supervisor.py."""

    def __init__(
        self, parts: Parts, commands: CommandQueue, stop: Event, *, record_limit: int
    ) -> None:
        self._parts = parts
        self._config = parts.config
        self._board = parts.board
        self._commands = commands
        self._requests = parts.requests
        self._stop = stop
        self._record_limit = record_limit
        self._extract = extractor_for(parts.config.stream.spec.id)
        self._policy = policy_of(parts.config.stream.spec)

    def run(self) -> None:
        """Run until `stop` is set or a reconcile is asked for, which the next session begins with.

        Raises StreamError for whatever ends it before.
        """
        try:
            self._run()
        except BrokerUnavailable as error:
            cause = self._board.disturbance
            if isinstance(cause, NotAuthorized):
                raise cause from error
            raise

    def _run(self) -> None:
        spec, partition = self._config.stream.spec, self._config.partition
        self._board.enter(Phase.STARTING)
        # First, because a worker that was given the wrong volume must not fence the right one.
        recorded = self._config.state.recorded(self._config.stream_id, partition)
        if recorded is None and self._config.restore_from:
            self._restore(self._config.restore_from)
            if self._stop.is_set():
                return
            recorded = self._config.state.recorded(self._config.stream_id, partition)
        self._config.state.discard_restoring()
        topics = self._parts.topics(self._stop)
        with ExitStack() as cleanup:
            self._input, self._output, *_ = [
                topics.describe(name, partition, needed)
                for name, needed in needed_rights(spec).items()
            ]
            self._identity = Identity(
                stream=self._config.stream_id,
                partition=partition,
                input_topic_id=self._input.id,
                output_topic_id=self._output.id,
                id_source=id_source_text(spec.id),
            )
            self._config.state.check_id_source(recorded, self._identity)
            self._board.calm()
            written = [self._output.name, *routed_topics(spec)]
            output = self._parts.output(min(map(topics.max_message_bytes, written)))
            output.fence(self._stop)
            reader = cleanup.enter_context(closing(self._parts.reader(spec.input.topic)))
            plan, store = self._open_store(topics, recorded)
            cleanup.push(partial(_close, store))
            window = Window(store, self._policy.layout.dtype)
            same_input = recorded is None or recorded.input_topic_id == self._input.id
            committed = self._committed(reader, topics) if same_input else None
            available = topics.offsets(spec.input.topic, partition)
            start = plan_start(
                committed=committed.offset if committed else None,
                stamp=store.stamp,
                same_input=same_input,
                available=available,
            )
            if start.expired:
                self._board.tally.expired_offsets += start.expired
                log.error("input records expired before they were read", offsets=start.expired)
            asked = self._requests.waiting
            position = self._reconcile(topics, plan, window, start.offset)
            if asked and not self._stop.is_set():
                answer(asked, self._parts, topics, store, self._extract, self._stop)
            reader.seek(start.offset)
            if not self._stop.is_set():
                output.resume(position, partial(note_of, self._output.id))
                noted = noted_position(committed, start.offset, self._output.id)
                if noted is None:
                    output.mark(start.offset, reader)
                in_doubt = InDoubt(self._ids_from(noted, position), end=available.end)
                loop = self._make_loop(reader, output, window, in_doubt)
                self._run_loop(loop, topics, reader, store)
            self._board.enter(Phase.STOPPING if self._stop.is_set() else Phase.STARTING)
            store.flush()

    def _restore(self, snapshot: str) -> None:
        """Fill an empty state directory. Before the take-over: an older worker may pass messages on for as long."""
        self._board.enter(Phase.RESTORING)
        # Here, because boto3 is a fifth of a worker's start, and most starts need none.
        from dedupe_worker.snapshots.download import Restore  # noqa: PLC0415

        Restore(self._config, self._board, snapshot).run(self._stop)

    def _committed(self, reader: PartitionReader, topics: Topics) -> Committed | None:
        try:
            return reader.committed()
        except BrokerUnavailable:
            topics.check_group(self._config.group)
            raise

    # -- the store -------------------------------------------------------------------------------

    def _open_store(
        self, topics: Topics, recorded: Identity | None
    ) -> tuple[ReconcilePlan, IdStore]:
        """The store and how to reconcile it; an untrusted one is discarded before its identity is recorded."""
        state, window = self._config.state, self._config.stream.spec.store.window
        output_range = topics.offsets(self._output.name, self._config.partition)
        oldest = datetime.now(UTC) - window.max_age
        window_start = topics.offset_at(self._output.name, self._config.partition, oldest)
        remove_comparison(state.comparison)
        store, trust = None, Trust.WHOLE
        if recorded is not None:
            remove_unfinished(state)
            remove_copy(state)
            store, trust = self._open_trusted(output_range)
        plan = plan_reconcile(
            store.stamp if store else None,
            recorded=recorded,
            output_topic_id=self._output.id,
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
        if recorded != self._identity:
            state.record(self._identity)
        return plan, store or self._parts.store()

    def _open_trusted(self, output: Range) -> tuple[IdStore | None, Trust]:
        """The store as it was left; if that is damaged, as the newest checkpoint has it; None if there is neither."""
        try:
            return self._parts.store(), Trust.WHOLE
        except StoreCorrupt as error:
            self._board.errors[error.reason] += 1
            log.error("store is corrupt", error=str(error))
        if not fall_back(self._config.state, self._identity, output):
            return None, Trust.NONE
        try:
            return self._parts.store(), Trust.CHECKPOINT
        except StoreCorrupt as error:
            log.error("checkpoint is corrupt", error=str(error))
            return None, Trust.NONE

    def _reconcile(
        self, topics: Topics, plan: ReconcilePlan, window: Window, input_offset: int
    ) -> int:
        """Bring the window up to the output's end; returns that end."""
        end = topics.offsets(self._output.name, self._config.partition).end
        self._board.enter(Phase.RECONCILING)
        if plan.rebuild and plan.reason not in {"NewStore", "StoreCorrupt"}:
            self._board.errors[plan.reason] += 1
        log.info(
            "reconciling", reason=plan.reason, start=plan.start, end=end, truncated=plan.truncated
        )
        now_ms = int(time.time() * 1000)
        if plan.rebuild or window.store.stamp is None:
            # What an empty store is not to be trusted with goes before its first id: a rebuild may be broken off.
            # And with a stamp the next start reads only what comes after.
            window.commit(
                output_position=plan.start,
                input_offset=input_offset,
                seen_ms=now_ms,
                newest_ms=0,
            )
        if plan.truncated:
            window.store.mark_truncated()
        if plan.start < end:
            with ExitStack() as readers:
                reader = readers.enter_context(closing(self._parts.reader(self._output.name)))
                reader.seek(plan.start)
                reconcile(
                    reader,
                    window,
                    self._extract,
                    self._recall(topics, plan, window.store.stamp, readers),
                    start=plan.start,
                    end=end,
                    forgets=plan.rebuild and plan.start > 0,
                    input_offset=input_offset,
                    stop=self._stop,
                    on_progress=partial(show_reconcile, self._board, plan.reason),
                )
        else:
            if plan.rebuild and plan.start > 0:
                window.store.mark_forgotten(now_ms)
            show_reconcile(self._board, plan.reason, Progress(0, 0, 0.0))
        if self._board.reconcile:
            log.info("reconciled", **self._board.reconcile.model_dump())
        return end

    def _recall(
        self, topics: Topics, plan: ReconcilePlan, stamp: Stamp | None, readers: ExitStack
    ) -> Recall:
        """What is remembered of the output records that are read; `readers` closes what it reads from."""
        partition, notes = self._config.partition, None
        if notes_owners(self._config.stream.spec):
            topic = owners_topic(self._output.name)
            there = topics.offsets(topic, partition)
            start: int | None = there.low
            if stamp and not plan.rebuild:
                since = datetime.fromtimestamp(stamp.last_seen_ms / 1000, UTC) - EARLIER
                start = topics.offset_at(topic, partition, since)
            reader = readers.enter_context(closing(self._parts.reader(topic)))
            reader.seek(there.end if start is None else start)
            rewind = None if start == there.low else partial(reader.seek, there.low)
            notes = Notes(reader, there.end, self._output.id, rewind=rewind)
        return Recall(self._policy.layout, partition=partition, notes=notes)

    def _ids_from(self, start: int | None, end: int) -> Iterator[bytes]:
        open_output = partial(self._parts.reader, self._output.name)
        return ids_between(open_output, self._extract, start=start, end=end, stop=self._stop)

    # -- the loop --------------------------------------------------------------------------------

    def _make_loop(
        self,
        reader: PartitionReader,
        output: PartitionOutput,
        window: Window,
        in_doubt: InDoubt,
    ) -> Loop:
        spec = self._config.stream.spec
        tuning = spec.worker.tuning
        limit = min(self._record_limit, self._config.bounds.largest_write_records)
        config = LoopConfig(
            input_topic=spec.input.topic,
            partition=self._config.partition,
            commit_interval_seconds=tuning.commit_interval.total_seconds(),
            max_batch_records=min(limit, tuning.max_batch_records),
            max_transaction_records=min(limit, tuning.max_transaction_records),
        )
        return Loop(
            config,
            reader=reader,
            output=output,
            window=window,
            admission=Admission(
                self._policy,
                partition=self._config.partition,
                window=window,
                extract=self._extract,
                in_doubt=in_doubt,
            ),
            logs=logs_of(spec, self._output.id),
            board=self._board,
        )

    def _run_loop(
        self, loop: Loop, topics: Topics, reader: PartitionReader, store: IdStore
    ) -> None:
        self._board.enter(Phase.RUNNING)
        housekeeping = topic_check = refilled = time.monotonic()
        refilling = True
        desk = Desk(self._config, self._identity, store, self._board, self._parts.keeper)
        bounds = self._config.stream.spec.store.window
        try:
            while not self._stop.is_set() and not self._requests.waiting:
                loop.step()
                now = time.monotonic()
                if not loop.in_transaction:
                    self._commands.run_waiting(desk)
                    if refilling:
                        refilling = store.refill((now - refilled) * _REFILL_SHARE)
                        refilled = time.monotonic()
                if now >= housekeeping:
                    if not loop.in_transaction:
                        store.age(int(time.time() * 1000))  # ids grow old without traffic, too
                    self._board.window = window_status(store, bounds.alert_below)
                    housekeeping = now + _HOUSEKEEPING_SECONDS
                if now >= topic_check:
                    self._check_output_topic(topics)
                    reader.check(topics.end(self._input.name, self._config.partition))
                    topic_check = now + _TOPIC_CHECK_SECONDS
            loop.commit()
        except StreamError as error:
            self._abandon(loop, error)
            raise

    def _abandon(self, loop: Loop, cause: StreamError) -> None:
        """Abort what is open; when even that fails, the next session's take-over does it.

        Raises Fenced: to `produce` that is any fatal error, and only the abort gives it its name.
        """
        try:
            loop.abort()
        except Fenced:
            raise
        except StreamError as error:
            log.warning(
                "transaction left to the next session", cause=cause.reason, error=str(error)
            )

    def _check_output_topic(self, topics: Topics) -> None:
        """Notice a topic that was deleted and created again: its ids are not those in the store."""
        now: Topic = topics.describe(self._output.name, self._config.partition)
        self._board.calm()
        if now.id != self._output.id:
            raise OutputTopicReplaced(
                f"output topic {now.name} was deleted and created again; the store is rebuilt from the new one"
            )


def _close(
    store: IdStore,
    kind: type[BaseException] | None,
    _: BaseException | None,
    __: TracebackType | None,
) -> None:
    """Close a session's store; but not after another worker has taken over, because closing writes."""
    if kind is not None and issubclass(kind, Fenced):
        _taken_over.append(store)
    else:
        store.close()
