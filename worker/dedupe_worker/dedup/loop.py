"""The loop: consume, identify, look up, produce, commit, then store the ids.

    1  read a batch, take the ids
    2  look them up: in the store, in the open transaction, in the batch itself
    3  produce the first record of each id, unchanged and in order; produce routed records to their topics
    4  commit: the output records, the side records about them, and the input offset become visible together
    5  write the new ids to the store, with the output position they are complete up to

A process may die between any two of these: before 4 the transaction never happened; after it the output topic has
the records, and the next start reads their ids from there. So an id is in the store only if its record is in the
output. Sources: Segment's deduplication (the output topic as the store's log), Kafka's transactions (KIP-98, KIP-447).
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Message

from dedupe_crds.clock import Clock
from dedupe_ids.batch import Rows
from dedupe_kafka.errors import RecordRefused
from dedupe_worker.dedup.border import NoBorder, Part
from dedupe_worker.dedup.classify import Classifier, Verdict
from dedupe_worker.dedup.loop_output import Output
from dedupe_worker.dedup.missing_ids import MissingIds
from dedupe_worker.dedup.records import choose, readable_part
from dedupe_worker.dedup.window import Window
from dedupe_worker.kafka.consumer import Batch
from dedupe_worker.kafka.source import Source
from dedupe_worker.side_topics.writers import SideTopicWriter
from dedupe_worker.status import WorkerState
from dedupe_worker.store.metadata import LastRecords
from dedupe_worker.values import fingerprint

_LONGEST_TRANSACTION_SECONDS: Final = 1.0
# So many offsets without records, such as those of an aborted transaction, are worth a commit of their own: the next
# start need not read them again. Above what the markers of a stream's transactions take.
_SKIPPED_OFFSETS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """The loop's settings.

    Records that arrive within `commit_interval_seconds` are read as one batch, unless it is full before. Between two
    batches are at least `longest_commit_interval_seconds`: all partitions of a stream commit to one broker, that of
    their group. With `proves_input` the store keeps a fingerprint of the last record read, as of the last one written.
    """

    input_topic: str
    partition: int
    commit_interval_seconds: float
    longest_commit_interval_seconds: float = 0.0
    max_batch_records: int
    max_transaction_records: int
    proves_input: bool = False


@dataclass(slots=True)
class _Transaction:
    """The open transaction."""

    began: float
    first_offset: int
    records: int = 0
    passed: int = 0
    next_offset: int = 0
    newest_ms: int = 0
    last_read: Message | None = None
    last_passed: Message | None = None


class Loop:
    """The loop of one partition, over a window complete up to the output's position."""

    def __init__(
        self,
        config: LoopConfig,
        *,
        reader: Source,
        output: Output,
        window: Window,
        classifier: Classifier,
        logs: Sequence[SideTopicWriter],
        border: NoBorder,
        missing_ids: MissingIds,
        worker_state: WorkerState,
        clock: Clock,
    ) -> None:
        self._config = config
        self._reader = reader
        self._output = output
        self._window = window
        self._classifier = classifier
        self._logs = logs
        self._border = border
        self._missing_ids = missing_ids
        self._worker_state = worker_state
        # Bound once: each batch reads the time several times.
        self._monotonic, self._time_ms = clock.monotonic, clock.time_ms
        self._open: _Transaction | None = None
        self._last_read = 0.0
        self._last_arrival = -math.inf
        self._committed = reader.next_offset

    def step(self) -> None:
        """Process one batch; commit when that is due. Raises StreamError."""
        config = self._config
        # The time of a commit counts towards the interval: a record that arrives meanwhile does not wait twice.
        due = max(
            self._last_read + config.commit_interval_seconds,
            self._last_arrival + config.longest_commit_interval_seconds,
        )
        with self._stage("consume"):
            batch = self._reader.read(config.max_batch_records, max(0.0, due - self._monotonic()))
        self._last_read = self._monotonic()
        batch, unreadable = readable_part(batch)
        try:
            if batch.records:
                self._last_arrival = self._last_read
                for part in self._border.parts(batch):
                    self._take(part)
            if self._open is None and batch.next_offset - self._committed >= _SKIPPED_OFFSETS:
                self._begin(batch.next_offset, batch.next_offset)
            if self._open and self._is_due(self._open, batch):
                self.commit()
        except RecordRefused as error:
            raise self._with_location(error) from error
        if unreadable is not None:
            raise unreadable
        self._update_status(batch)

    @property
    def in_transaction(self) -> bool:
        """Return whether records wait for a commit."""
        return self._open is not None

    def commit(self) -> None:
        """Commit the open transaction, if there is one, then store its ids."""
        transaction = self._open
        if transaction is None:
            return
        if self._logs:
            with self._stage("side_topics"):
                self._write_side_records(transaction)
        with self._stage("commit"):
            self._output.commit(transaction.next_offset, self._reader)
        # From here on the records are in the output, even if the store fails.
        self._open = None
        self._committed = transaction.next_offset
        self._worker_state.clear_failure()
        self._worker_state.tally.transactions += 1
        self._worker_state.tally.produced += transaction.passed
        now_ms = self._time_ms()
        with self._stage("store"):
            self._window.commit(
                output_position=self._output.complete_up_to,
                input_offset=transaction.next_offset,
                seen_ms=now_ms,
                newest_ms=transaction.newest_ms,
                last=self._last_records(transaction),
                own=self._output.own,
            )
            self._window.age(now_ms)

    def abort(self) -> None:
        """Abort the open transaction, if there is one."""
        if self._open:
            self._open = None
            self._worker_state.tally.aborted_transactions += 1
            self._window.abort()
            self._clear_logs()
            self._output.abort()

    def _is_due(self, transaction: _Transaction, batch: Batch) -> bool:
        """Return whether to commit the transaction.

        A transaction is as large as the rest to read, within bounds: small where little waits, for latency, and large
        under a backlog, for throughput. A worker that is faster than its input gets to small ones by halves.
        """
        return (
            transaction.records >= batch.behind
            or transaction.records >= self._config.max_transaction_records
            or self._monotonic() - transaction.began >= _LONGEST_TRANSACTION_SECONDS
        )

    def _take(self, part: Part) -> None:
        """Process records; at a mark commit, and begin its epoch."""
        if part.records:
            self._process(part)
        elif part.mark is not None:
            self.commit()
            self._border.pass_mark(part.mark, self._output.position)
            self._begin(part.next_offset - 1, part.next_offset)
            self.commit()

    def _begin(self, first_offset: int, next_offset: int) -> None:
        self._output.begin()
        self._open = _Transaction(self._monotonic(), first_offset, next_offset=next_offset)

    def _process(self, batch: Part) -> None:
        self._worker_state.clear_client_error()
        if self._open is None:
            self._begin(batch.records[0].offset() or 0, 0)
        assert self._open is not None  # noqa: S101 (for the type checker)
        records, strays = self._border.strays(batch.records)
        self._open.records += len(batch.records)
        self._open.next_offset = batch.next_offset
        self._worker_state.tally.sent_on += len(strays)
        self._output.route(strays)
        if not records:
            return
        with self._stage("identify"):
            identified = self._classifier.identify(records)
            newest_ms = identified.newest_ms
        with self._stage("lookup"):
            verdict = self._classifier.classify(records, identified, self._time_ms())
            passed, owners, times = records, identified.owners, identified.times
            if not verdict.passed.all():
                passed = choose(records, verdict.passed)
                owners, times = owners[verdict.passed], times[verdict.passed]
        with self._stage("produce"):
            self._output.produce(passed, times)
            self._output.route(verdict.routed)
            if passed:
                for log in self._logs:
                    log.add(passed, owners)
        self._open.passed += len(passed)
        self._open.last_read = records[-1]
        self._open.last_passed = passed[-1] if passed else self._open.last_passed
        self._open.newest_ms = max(self._open.newest_ms, newest_ms)
        self._count(verdict, records, identified.rows)

    def _count(self, verdict: Verdict, records: Sequence[Message], with_id: Rows) -> None:
        tally = self._worker_state.tally
        tally.consumed += len(records)
        self._missing_ids.count(records, with_id)
        tally.duplicates += verdict.duplicates
        tally.redelivered += verdict.redelivered
        tally.conflicts += verdict.conflicts
        tally.late += verdict.late

    def _write_side_records(self, transaction: _Transaction) -> None:
        """Write the side records of the transaction, which need its output offsets."""
        written = self._output.flush() if transaction.passed else None
        if written is not None:
            for log in self._logs:
                self._output.produce_side_records(log.records(written))
        self._clear_logs()

    def _last_records(self, transaction: _Transaction) -> LastRecords:
        read, written = transaction.last_read, transaction.last_passed
        # Not while others' records are unread: they may be in the place of the last one before.
        alone = self._output.complete_up_to == self._output.position
        proved = read if self._config.proves_input else None
        return LastRecords(
            read=fingerprint(proved, proved.offset() or 0) if proved else "",
            written=fingerprint(written, self._output.position - 1) if written and alone else "",
            read_up_to=self._reader.last_read,
        )

    def _clear_logs(self) -> None:
        for log in self._logs:
            log.clear()

    def _with_location(self, error: RecordRefused) -> RecordRefused:
        """Return the error with the input offsets: Kafka does not name the record."""
        if not (self._open and self._open.next_offset):
            return error
        first, last = self._open.first_offset, self._open.next_offset - 1
        where = f"offset {first}" if first >= last else f"one of the offsets {first} to {last}"
        return type(error)(
            f"{error}; it is at {where} of {self._config.input_topic}/{self._config.partition}"
        )

    def _update_status(self, batch: Batch) -> None:
        self._worker_state.heartbeat()
        if self._open:
            return  # uncommitted records may be read again
        end = self._reader.end_offset()
        self._worker_state.input = self._worker_state.input.model_copy(
            update={
                "next_offset": batch.next_offset,
                "end_offset": end,
                "lag_messages": None if end is None else max(0, end - batch.next_offset),
            }
        )
        written = {"position": self._output.position}
        self._worker_state.output = self._worker_state.output.model_copy(update=written)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        began = self._monotonic()
        try:
            yield
        finally:
            self._worker_state.stage_seconds[name] += self._monotonic() - began
