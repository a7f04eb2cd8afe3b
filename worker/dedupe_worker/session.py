"""Run one partition, from its start to a stop or a failure, in this order.

    1  check whose volume this is, and fill an empty volume from a snapshot if so configured
    2  describe the topics as they are now, and take over the partition (fences an older worker, aborts its open
       transaction)
    3  open the store, or discard it if it cannot be trusted
    4  catch up with the output topic; run a full reconcile if one was requested
    5  run the loop until a stop or a reconcile is requested

`Supervisor` runs one session after another. A failure anywhere ends the session with a named error; the next session
begins at 1 and finds out from Kafka which records are committed. There is no other error handling to get wrong.
"""

from contextlib import ExitStack, closing
from functools import partial
from threading import Event
from types import TracebackType
from typing import Final

import structlog

from dedupe_crds.status.worker import Phase
from dedupe_ids.extract import extractor_for
from dedupe_kafka.errors import BrokerUnavailable, Fenced, NotAuthorized, StreamError
from dedupe_kafka.side_topics import routed_topics
from dedupe_worker.admin.commands import AdminCommands, CommandQueue
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.dedup.housekeeping import Housekeeping
from dedupe_worker.dedup.loop import Loop
from dedupe_worker.dedup.uncommitted_output import (
    UncommittedIds,
    encode_metadata,
    read_ids,
    recorded_position,
)
from dedupe_worker.dedup.window import Window
from dedupe_worker.errors import OutputTopicReplaced
from dedupe_worker.kafka.admin import Topics, needed_rights
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.kafka.producer import PartitionOutput
from dedupe_worker.recovery.on_demand import run_requested
from dedupe_worker.recovery.startup import InputStart, Startup, TakenOver
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.state_dir import Identity, id_source_text

# Stores whose files belong to another worker now. They stay open until the process ends, which is at once.
_left_open: Final[list[IdStore]] = []

log = structlog.get_logger()


class Session:
    """One run of the steps above.

    `record_limit` bounds the transactions, see supervisor.py.
    """

    def __init__(
        self, factory: ComponentFactory, commands: CommandQueue, stop: Event, *, record_limit: int
    ) -> None:
        self._factory = factory
        self._config = factory.config
        self._worker_state = factory.worker_state
        self._commands = commands
        self._requests = factory.requests
        self._stop = stop
        self._record_limit = record_limit
        self._extract = extractor_for(factory.config.stream.spec.id)
        self._startup = Startup(factory, self._extract, stop)

    def run(self) -> None:
        """Run until `stop` is set or a reconcile is requested.

        The next session runs that reconcile. Raises StreamError for a failure before.
        """
        try:
            self._run()
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
            partition, output = self._take_over(topics, recorded)
            reader = cleanup.enter_context(
                closing(self._factory.make_reader(partition.input_topic.name))
            )
            # 3
            opened = self._startup.open_store(partition)
            store = opened.store
            cleanup.push(partial(_close, store))
            # 4
            window = Window(store, self._factory.policy.layout.dtype)
            start = self._startup.find_start(partition, reader, store)
            request = self._requests.waiting
            position = self._startup.catch_up(partition, opened.plan, window, start.offset)
            if request and not self._stop.is_set():
                run_requested(
                    request, self._factory, partition.topics, store, self._extract, self._stop
                )
            # 5
            reader.seek(start.offset)
            if not self._stop.is_set():
                uncommitted = self._resume(partition, output, reader, start, position)
                loop = self._factory.make_loop(
                    partition.output_topic.id,
                    reader=reader,
                    output=output,
                    window=window,
                    extract=self._extract,
                    uncommitted=uncommitted,
                    record_limit=self._record_limit,
                )
                self._run_loop(loop, partition, reader, store)
            self._worker_state.set_phase(Phase.STOPPING if self._stop.is_set() else Phase.STARTING)
            store.flush()

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

    def _take_over(
        self, topics: Topics, recorded: Identity | None
    ) -> tuple[TakenOver, PartitionOutput]:
        """Describe the topics, check them against the volume, and fence an older worker."""
        spec, number = self._config.stream.spec, self._config.partition
        input_topic, output_topic, *_ = [
            topics.describe(name, number, needed) for name, needed in needed_rights(spec).items()
        ]
        identity = Identity(
            stream=self._config.stream_id,
            partition=number,
            input_topic_id=input_topic.id,
            output_topic_id=output_topic.id,
            id_source=id_source_text(spec.id),
        )
        self._config.state.check_id_source(recorded, identity)
        self._worker_state.clear_client_error()
        written = [output_topic.name, *routed_topics(spec)]
        output = self._factory.make_output(min(map(topics.max_message_bytes, written)))
        output.fence(self._stop)
        partition = TakenOver(
            topics=topics,
            input_topic=input_topic,
            output_topic=output_topic,
            identity=identity,
            recorded=recorded,
        )
        return partition, output

    def _resume(
        self,
        partition: TakenOver,
        output: PartitionOutput,
        reader: PartitionReader,
        start: InputStart,
        position: int,
    ) -> UncommittedIds:
        """Set the output to its position; return the ids of uncommitted output."""
        output_id = partition.output_topic.id
        output.resume(position, partial(encode_metadata, output_id))
        recorded = recorded_position(start.committed, start.offset, output_id)
        if recorded is None:
            output.record_start(start.offset, reader)
        open_output = partial(self._factory.make_reader, partition.output_topic.name)
        ids = read_ids(open_output, self._extract, start=recorded, end=position, stop=self._stop)
        return UncommittedIds(ids, end=start.end)

    # -- the loop --------------------------------------------------------------------------------

    def _run_loop(
        self, loop: Loop, partition: TakenOver, reader: PartitionReader, store: IdStore
    ) -> None:
        self._worker_state.set_phase(Phase.RUNNING)
        admin_commands = AdminCommands(
            self._config,
            partition.identity,
            store,
            self._worker_state,
            self._factory.upload_manager,
            self._factory.clock,
        )
        housekeeping = Housekeeping(
            store,
            self._worker_state,
            self._factory.clock,
            alert_below=self._config.stream.spec.store.window.alert_below,
            run_commands=partial(self._commands.run_waiting, admin_commands),
            check_topics=partial(self._check_topics, partition, reader),
        )
        try:
            while not self._stop.is_set() and not self._requests.waiting:
                loop.step()
                housekeeping.run(in_transaction=loop.in_transaction)
            loop.commit()
        except StreamError as error:
            self._abandon(loop, error)
            raise

    def _abandon(self, loop: Loop, cause: StreamError) -> None:
        """Abort the open transaction; if that fails, the next session's take-over does it.

        Raises Fenced: `produce` sees it as any fatal error, and only the abort names it.
        """
        try:
            loop.abort()
        except Fenced:
            raise
        except StreamError as error:
            log.warning(
                "transaction left to the next session", cause=cause.reason, error=str(error)
            )

    def _check_topics(self, partition: TakenOver, reader: PartitionReader) -> None:
        """Raise OutputTopicReplaced or BrokerUnavailable if the topics need a new session."""
        output, number = partition.output_topic, self._config.partition
        now = partition.topics.describe(output.name, number)
        self._worker_state.clear_client_error()
        if now.id != output.id:
            raise OutputTopicReplaced(
                f"output topic {now.name} was deleted and created again; the store is rebuilt from the new one"
            )
        reader.check(partition.topics.end(partition.input_topic.name, number))


def _close(
    store: IdStore,
    kind: type[BaseException] | None,
    _: BaseException | None,
    __: TracebackType | None,
) -> None:
    """Close a session's store, unless another worker has taken over: closing writes."""
    if kind is not None and issubclass(kind, Fenced):
        _left_open.append(store)
    else:
        store.close()
