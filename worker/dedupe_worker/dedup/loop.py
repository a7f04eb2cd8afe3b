"""The loop: consume, identify, look up, produce, commit, and only then remember.

    1  read a batch, take the ids
    2  look them up: in the store, in the open transaction, in the batch itself
    3  produce the first record of each id, as it is, in order; and others to the topics that they are routed to
    4  commit: the output records, what is noted about them, and the input offset become visible together
    5  write the new ids to the store, with the output position they are complete up to

A process may die between any two of these: before 4 the transaction never happened, after it the output topic has
the records and the next start learns their ids from there. So an id is in the store only if its record is in the
output. Sources: Segment's deduplication (the output topic as the store's log), Kafka's transactions (KIP-98, KIP-447).
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
from typing import Final, Protocol

from confluent_kafka import Message

from dedupe_kafka.errors import RecordRefused
from dedupe_worker.dedup.classify import Admission
from dedupe_worker.dedup.judge import Routed, Verdict
from dedupe_worker.dedup.window import Window
from dedupe_worker.kafka.consumer import Batch, Source
from dedupe_worker.kafka.producer import Note, Span
from dedupe_worker.side_topics.writers import ChunkLog
from dedupe_worker.status import Board

_LONGEST_TRANSACTION_SECONDS: Final = 1.0


class Output(Protocol):
    """What the loop needs of a PartitionOutput."""

    @property
    def position(self) -> int: ...  # noqa: D102 (see output.py)
    def begin(self) -> None: ...  # noqa: D102
    def produce(self, records: Sequence[Message]) -> None: ...  # noqa: D102
    def route(self, routed: Sequence[Routed]) -> None: ...  # noqa: D102
    def note(self, notes: Sequence[Note]) -> None: ...  # noqa: D102
    def settle(self) -> Span | None: ...  # noqa: D102
    def commit(self, next_offset: int, source: Source) -> None: ...  # noqa: D102
    def abort(self) -> None: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """What the loop is told. What comes within `commit_interval_seconds` is read together, unless a batch is full."""

    input_topic: str
    partition: int
    commit_interval_seconds: float
    max_batch_records: int
    max_transaction_records: int


@dataclass(slots=True)
class _Transaction:
    """The open transaction."""

    began: float
    first_offset: int
    records: int = 0
    passed: int = 0
    next_offset: int = 0
    newest_ms: int = 0


class Loop:
    """One partition's loop, over a reader, an output and a window that are ready to be used.

    The window is complete up to the output's position at the start.
    """

    def __init__(
        self,
        config: LoopConfig,
        *,
        reader: Source,
        output: Output,
        window: Window,
        admission: Admission,
        logs: Sequence[ChunkLog],
        board: Board,
    ) -> None:
        self._config = config
        self._reader = reader
        self._output = output
        self._window = window
        self._admission = admission
        self._logs = logs
        self._board = board
        self._open: _Transaction | None = None
        self._last_read = 0.0

    def step(self) -> None:
        """Read one batch and pass it on; commit when the transaction is due. Raises StreamError."""
        config = self._config
        # What a commit takes counts towards the interval, so a record that came meanwhile does not wait twice.
        due = self._last_read + config.commit_interval_seconds
        with self._stage("consume"):
            batch = self._reader.read(config.max_batch_records, max(0.0, due - time.monotonic()))
        self._last_read = time.monotonic()
        try:
            if batch.records:
                self._board.calm()
                self._pass_on(batch)
            if self._open and self._is_due(self._open, batch):
                self.commit()
        except RecordRefused as error:
            raise self._located(error) from error
        self._show(batch)

    @property
    def in_transaction(self) -> bool:
        """Whether records wait to be committed."""
        return self._open is not None

    def commit(self) -> None:
        """Commit the open transaction, if there is one, and remember its ids."""
        transaction = self._open
        if transaction is None:
            return
        if self._logs:
            with self._stage("note"):
                self._note(transaction)
        with self._stage("commit"):
            self._output.commit(transaction.next_offset, self._reader)
        # From here on the records are out, whatever becomes of the store.
        self._open = None
        self._board.recover()
        tally = self._board.tally
        tally.transactions += 1
        tally.produced += transaction.passed
        now_ms = int(time.time() * 1000)
        with self._stage("store"):
            self._window.commit(
                output_position=self._output.position,
                input_offset=transaction.next_offset,
                seen_ms=now_ms,
                newest_ms=transaction.newest_ms,
            )
            self._window.store.age(now_ms)

    def abort(self) -> None:
        """Give the open transaction up, if there is one."""
        if self._open:
            self._open = None
            self._board.tally.aborted_transactions += 1
            self._window.abort()
            self._clear_logs()
            self._output.abort()

    def _is_due(self, transaction: _Transaction, batch: Batch) -> bool:
        """A transaction is as large as what is left to read, within bounds.

        So it is small where little waits, for latency, and large under a backlog, for throughput; and a worker that
        is faster than its input comes from the one to the other by halves rather than never.
        """
        return (
            transaction.records >= batch.behind
            or transaction.records >= self._config.max_transaction_records
            or time.monotonic() - transaction.began >= _LONGEST_TRANSACTION_SECONDS
        )

    def _pass_on(self, batch: Batch) -> None:
        records = batch.records
        if self._open is None:
            self._output.begin()
            self._open = _Transaction(time.monotonic(), records[0].offset() or 0)
        with self._stage("identify"):
            identified = self._admission.identify(records)
        with self._stage("lookup"):
            verdict = self._admission.decide(records, identified, int(time.time() * 1000))
            passed, offsets = records, identified.offsets
            if not verdict.passed.all():
                passed = list(compress(records, verdict.passed.tolist()))
                offsets = offsets[verdict.passed]
        with self._stage("produce"):
            self._output.produce(passed)
            self._output.route(verdict.routed)
            if passed:
                for log in self._logs:
                    log.add(passed, offsets)
        self._open.records += len(records)
        self._open.passed += len(passed)
        self._open.next_offset = batch.next_offset
        self._open.newest_ms = max(self._open.newest_ms, identified.newest_ms)
        self._count(verdict, records, len(identified.rows))

    def _count(self, verdict: Verdict, records: Sequence[Message], with_id: int) -> None:
        tally = self._board.tally
        tally.consumed += len(records)
        tally.without_id += len(records) - with_id
        tally.duplicates += verdict.duplicates
        tally.redelivered += verdict.redelivered
        tally.conflicts += verdict.conflicts
        tally.late += verdict.late

    def _note(self, transaction: _Transaction) -> None:
        """Write what is to be known of the chunk, which takes the offsets of its records."""
        span = self._output.settle() if transaction.passed else None
        if span is not None:
            for log in self._logs:
                self._output.note(log.notes(span))
        self._clear_logs()

    def _clear_logs(self) -> None:
        for log in self._logs:
            log.clear()

    def _located(self, error: RecordRefused) -> RecordRefused:
        """The same with where to look: Kafka does not say which record it was."""
        if self._open is None or self._open.next_offset == 0:
            return error
        first, last = self._open.first_offset, self._open.next_offset - 1
        where = f"offset {first}" if first >= last else f"one of the offsets {first} to {last}"
        return type(error)(
            f"{error}; it is at {where} of {self._config.input_topic}/{self._config.partition}"
        )

    def _show(self, batch: Batch) -> None:
        self._board.beat()
        if self._open:
            return  # what is read and not committed may be read again
        end = self._reader.end_offset()
        self._board.input = self._board.input.model_copy(
            update={
                "next_offset": batch.next_offset,
                "end_offset": end,
                "lag_messages": None if end is None else max(0, end - batch.next_offset),
            }
        )
        self._board.output = self._board.output.model_copy(
            update={"position": self._output.position}
        )

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self._board.stage_seconds[name] += time.perf_counter() - began
