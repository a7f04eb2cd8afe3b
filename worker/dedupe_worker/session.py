"""Run one partition, from its start to a stop or a failure, in this order.

    1  check whose volume this is, and fill an empty volume from a snapshot if so configured
    2  describe the topics as they are now, and take over the partition (fences an older worker, aborts its open
       transaction)
    3  open the store, or discard it if it cannot be trusted; find the input offset, and record which topics both are of
    4  catch up with the output topic; learn the ids of older partitions if a growth has added this one; run a full
       reconcile if one was requested
    5  run the loop until a stop or a reconcile is requested

`Supervisor` runs one session after another. A failure anywhere ends the session with a named error; the next session
begins at 1 and finds out from Kafka which records are committed. There is no other error handling to get wrong. A stop
may cut a request of any step short (`Stopped`): that is no failure, and the store is flushed as after step 5.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from threading import Event

import structlog

from dedupe_crds.status.worker import Phase
from dedupe_ids.extract import extractor_for
from dedupe_kafka.errors import (
    BrokerUnavailable,
    Fenced,
    NotAuthorized,
    Stopped,
    StreamError,
)
from dedupe_worker.admin.commands import AdminCommands, CommandQueue
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.dedup.housekeeping import Housekeeping
from dedupe_worker.dedup.loop import Loop
from dedupe_worker.dedup.window import Window
from dedupe_worker.errors import StreamHasRouters
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.kafka.producer import PartitionOutput
from dedupe_worker.kafka.topic_watch import TopicWatch
from dedupe_worker.recovery.epochs import read_epochs
from dedupe_worker.recovery.foreign_records import read_foreign
from dedupe_worker.recovery.hand_over import hand_over, is_handed_over
from dedupe_worker.recovery.input_offset import begin_output, find_start
from dedupe_worker.recovery.lost_tail import LostTail
from dedupe_worker.recovery.on_demand import run_requested
from dedupe_worker.recovery.resume import record_topics, resume
from dedupe_worker.recovery.startup import Startup
from dedupe_worker.recovery.taken_over import TakenOver, take_over
from dedupe_worker.store.closing import close_store
from dedupe_worker.store.state_dir import Identity

log = structlog.get_logger()


class Session:
    """One run of the steps above.

    `record_limit` bounds the transactions, see supervisor.py. One that `hands_over` does so instead of step 5, and
    leaves a requested reconcile to the next one, because it does not know what that has learnt.
    """

    def __init__(
        self,
        factory: ComponentFactory,
        commands: CommandQueue,
        stop: Event,
        *,
        record_limit: int,
        hands_over: bool = False,
    ) -> None:
        self._factory = factory
        self._config = factory.config
        self._worker_state = factory.worker_state
        self._commands = commands
        self._requests = factory.requests
        self._stop = stop
        self._record_limit = record_limit
        self._hands_over = hands_over
        self._extract = extractor_for(factory.config.stream.spec.id)
        self._startup = Startup(factory, self._extract, stop)

    def run(self) -> None:
        """Run until `stop` is set or a reconcile is requested.

        The next session runs that reconcile. Raises StreamError for a failure before.
        """
        try:
            self._run()
        except Stopped as cut_short:
            log.info("stopped before a request was done", request=str(cut_short))
        except BrokerUnavailable as error:
            cause = self._worker_state.client_error
            if isinstance(cause, NotAuthorized):
                raise cause from error
            raise

    def _run(self) -> None:
        self._worker_state.set_phase(Phase.STARTING)
        # 1: first, because a worker that was given the wrong volume must not fence the right one
        recorded = self._recorded()
        if recorded is None and self._config.restore_from:
            self._restore(self._config.restore_from)
            if self._stop.is_set():
                return
            recorded = self._recorded()
        self._config.state.discard_restoring()
        topics = self._factory.make_topics(self._stop)
        with ExitStack() as cleanup:
            # 2
            reader = cleanup.enter_context(
                closing(self._factory.make_reader(self._config.stream.spec.worker_input))
            )
            partition, output = take_over(self._factory, topics, recorded, reader, self._stop)
            if self._config.stream.spec.repartition is None and is_handed_over(partition.committed):
                if self._hands_over:
                    return
                raise StreamHasRouters(
                    "this partition's input was handed over to routers, which read it now: put spec.repartition back "
                    f"into the manifest (or, of a new stream of this name, delete the offsets of {self._config.group})"
                )
            with self._explained(reader, output):
                self._run_taken_over(partition, output, reader, cleanup)

    @contextmanager
    def _explained(self, reader: PartitionReader, output: PartitionOutput) -> Iterator[None]:
        """Raise TransactionExpired for a Fenced that no newer worker has caused."""
        try:
            yield
        except Fenced as error:
            cause = self._factory.take_over.explain(
                error, reader, expired=output.expired, stop=self._stop
            )
            raise cause from error

    def _run_taken_over(
        self,
        partition: TakenOver,
        output: PartitionOutput,
        reader: PartitionReader,
        cleanup: ExitStack,
    ) -> None:
        """Run the steps from 3 on; `cleanup` closes the store."""
        epochs = cleanup.enter_context(
            read_epochs(self._factory, partition, self._extract, self._stop)
        )
        # 3
        opened = self._startup.open_store(epochs.described(partition))
        store, partition = opened.store, opened.partition
        cleanup.push(partial(close_store, store))
        # 4
        window = self._factory.make_window(store)
        start = find_start(
            *(partition, reader, store, self._worker_state, self._config.group),
            tail=LostTail.of(self._factory, self._stop),
            read_before=opened.read_before,
            trims=self._config.stream.spec.repartition is not None,
        )
        if opened.plan.reason == "OutputTopicReplaced":
            start = begin_output(start, partition)
        record_topics(self._factory, partition, output, reader, start)
        request = self._requests.waiting
        learn = partial(epochs.learn, window, start)
        position = self._startup.catch_up(partition, opened.plan, window, start, learn=learn)
        if request and not (self._stop.is_set() or self._hands_over):
            learnt = epochs.learnt_ids
            run_requested(
                request, self._factory, partition, window, self._extract, self._stop, learnt=learnt
            )
        # 5
        reader.seek(start.reads_from, start.last_read)
        if self._hands_over and not self._stop.is_set():
            hand_over(partition, output, reader, start, position=position)
        elif not self._stop.is_set():
            border = epochs.border(start.committed, position=position)
            uncommitted = resume(
                *(self._factory, partition, output, reader, start),
                extract=self._extract,
                position=position,
                border=border,
                stop=self._stop,
            )
            loop = self._factory.make_loop(
                *(partition.output_topic.id, partition.input_topic.id),
                partitions=partition.input_topic.partitions,
                reader=reader,
                output=output,
                window=window,
                extract=self._extract,
                uncommitted=uncommitted,
                border=border,
                record_limit=self._record_limit,
            )
            self._run_loop(loop, partition, reader, output, window)
        self._worker_state.set_phase(Phase.STOPPING if self._stop.is_set() else Phase.STARTING)

    def _recorded(self) -> Identity | None:
        """Return the identity on the volume; None if the volume is empty."""
        return self._config.state.recorded(self._config.stream_id, self._config.partition)

    def _restore(self, snapshot: str) -> None:
        """Fill an empty state directory.

        This is before the take-over, so that an older worker can continue meanwhile.
        """
        self._worker_state.set_phase(Phase.RESTORING)
        # Imported here, because boto3 is a fifth of a worker's start, and most starts do not need it.
        from dedupe_worker.snapshots.download import Download  # noqa: PLC0415

        Download(self._config, self._worker_state, snapshot, self._factory.clock).run(self._stop)

    # -- the loop --------------------------------------------------------------------------------

    def _run_loop(
        self,
        loop: Loop,
        partition: TakenOver,
        reader: PartitionReader,
        output: PartitionOutput,
        window: Window,
    ) -> None:
        self._worker_state.forget_input_end()
        read_unread = partial(
            read_foreign,
            *(self._factory, partition.topics, self._extract, output, window, self._stop),
        )
        admin_commands = AdminCommands(
            self._config,
            partition.identity,
            window.store,
            self._worker_state,
            self._factory.upload_manager,
            self._factory.clock,
            read_foreign=read_unread,
        )
        watch = TopicWatch(
            partition.topics,
            replace(partition.input_topic, id=partition.identity.input_topic_id),
            partition.output_topic,
            self._config.partition,
            self._factory.clock,
        )
        reader.check_topic = watch.check_input
        topics = partition.topics, partition.input_topic, partition.output_topic
        follow = self._factory.make_follow_up(*topics, reader, output, window=window)
        housekeeping = Housekeeping(
            window,
            self._worker_state,
            self._factory.clock,
            alert_below=self._config.stream.spec.store.window.alert_below,
            run_commands=partial(self._commands.run_waiting, admin_commands),
            check_topics=partial(self._check_topics, watch, reader, output, follow),
            read_foreign=read_unread,
        )
        self._worker_state.set_phase(Phase.RUNNING)
        try:
            # A stop within a step is like one before it: what was read before is committed.
            with suppress(Stopped):
                while not self._stop.is_set() and not self._requests.waiting:
                    loop.step()
                    housekeeping.run(in_transaction=loop.in_transaction)
            loop.commit()
        except StreamError as error:
            raise self._abandon(loop, error) from error

    def _abandon(self, loop: Loop, cause: StreamError) -> StreamError:
        """Abort the open transaction; if that fails, the next session's take-over does it.

        Return the cause, or Fenced: `produce` sees it as any fatal error, and only the abort names it.
        """
        try:
            loop.abort()
        except Fenced as error:
            return error
        except StreamError as error:
            log.warning(
                "transaction left to the next session", cause=cause.reason, error=str(error)
            )
        return cause

    def _check_topics(
        self,
        watch: TopicWatch,
        reader: PartitionReader,
        output: PartitionOutput,
        follow: Callable[[TopicWatch], None],
    ) -> None:
        """Raise an error if the topics need a new session.

        That is InputTopicReplaced, OutputTopicReplaced, OutputTruncated or BrokerUnavailable.
        """
        state = self._worker_state
        end = watch.check(input_offset=state.input.next_offset, output_position=output.position)
        state.clear_client_error()
        state.known_input_end = max(state.known_input_end, watch.input_end)
        reader.check(end)
        follow(watch)
