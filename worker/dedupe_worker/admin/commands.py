"""Admin commands on the store: from HTTP threads to the loop's thread.

The HTTP API calls `CommandQueue.call`; the session calls `run_waiting`. Invariant: only the loop's thread touches the
store, and only between two transactions, when all of it belongs to one position.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_crds.status.worker import CheckpointStatus, IdOwner, IdStatus
from dedupe_ids.extract import packed_meanings
from dedupe_kafka.errors import StreamError
from dedupe_worker.config import WorkerConfig
from dedupe_worker.errors import DiskFull, OutputUnread, StoreCorrupt, StoreFailed
from dedupe_worker.origins import Origins
from dedupe_worker.status import WorkerState
from dedupe_worker.store.ageing import Generation
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.checkpoint import make_checkpoint
from dedupe_worker.store.state_dir import Identity
from dedupe_worker.values import OWNER_BYTES, decode_owner, timestamp_of

if TYPE_CHECKING:
    from dedupe_worker.snapshots.upload_manager import UploadManager


class StoreCommands(Protocol):
    """The commands that a running worker accepts."""

    def checkpoint(self) -> CheckpointStatus | None:
        """Write a checkpoint; None while the store is still empty."""

    def lookup(self, raw_ids: list[bytes]) -> list[IdStatus]:
        """Return what is known about ids, in their order.

        In JSON digits mean a text, else a number.
        """

    def forget(self, raw_ids: list[bytes]) -> int:
        """Forget ids; return how many were in the store."""


class StoreUnusable(Exception):
    """A command met an error after which the store must be opened again.

    `error` is the answer to the caller, and ends the session as the same error of the loop does.
    """

    def __init__(self, error: StreamError) -> None:
        super().__init__(str(error))
        self.error = error


Command = Callable[[StoreCommands], Any]


class CommandQueue:
    """Passes commands from any thread to the loop's thread."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[tuple[Command, Future[Any]]] = SimpleQueue()

    def call(self, command: Command, timeout_seconds: float) -> Any:  # noqa: ANN401 (whatever the command returns)
        """Have the loop's thread run a command; return or raise what it does.

        Raises TimeoutError if the loop has not run it in time.
        """
        result = self.submit(command)
        try:
            return result.result(timeout_seconds)
        except TimeoutError:
            result.cancel()  # if it has not begun, the loop skips it
            raise

    def submit(self, command: Command) -> "Future[Any]":
        """Queue a command, and return at once; the result holds what it returns or raises."""
        result: Future[Any] = Future()
        self._waiting.put((command, result))
        return result

    def run_waiting(self, target: StoreCommands) -> None:
        """Run the waiting commands; only the loop's thread calls this.

        Raises StoreCorrupt, DiskFull or StoreFailed if the store can't be used any more. Any other error is only its
        caller's.
        """
        while True:
            try:
                command, result = self._waiting.get_nowait()
            except Empty:
                return
            if not result.set_running_or_notify_cancel():
                continue
            try:
                result.set_result(command(target))
            except StoreUnusable as unusable:
                result.set_exception(unusable.error)
                raise unusable.error from unusable
            except Exception as error:  # noqa: BLE001 (it is the caller's, and raised there)
                result.set_exception(error)


class AdminCommands:
    """The `StoreCommands` of one session's store.

    `read_foreign` reads what other producers wrote to the output, and returns whether all of it is read.
    """

    def __init__(  # noqa: PLR0917 (what the session has, each once)
        self,
        config: WorkerConfig,
        identity: Identity,
        store: IdStore,
        worker_state: WorkerState,
        upload_manager: "UploadManager | None",
        clock: Clock = SYSTEM_CLOCK,
        *,
        read_foreign: Callable[[], bool],
    ) -> None:
        self._config = config
        self._read_foreign = read_foreign
        self._identity = identity
        self._store = store
        self._worker_state = worker_state
        self._upload_manager = upload_manager
        self._clock = clock

    def checkpoint(self) -> CheckpointStatus | None:
        """Replace the checkpoint by a new one.

        Raises UploadRunning while the old one is being uploaded. A full volume does not end the session: the store can
        still be used.
        """
        if self._upload_manager:
            self._upload_manager.refuse_while_uploading()
        began = self._clock.monotonic()
        try:
            with _ends_session(StoreCorrupt):
                made = make_checkpoint(
                    self._config.state, self._identity, self._store, self._clock.now()
                )
        finally:  # the loop did not run in the meantime
            self._worker_state.stage_seconds["checkpoint"] += self._clock.monotonic() - began
        self._worker_state.checkpoint = made or self._worker_state.checkpoint
        return made

    def lookup(self, raw_ids: list[bytes]) -> list[IdStatus]:
        """Return what is known about ids, in their order."""
        meanings = [packed_meanings(raw, self._config.stream.spec.id) for raw in raw_ids]
        with _ends_session(StoreCorrupt, DiskFull, StoreFailed):
            known = self._store.locate([packed for each in meanings for packed in each])
        origins = self._store.origins if self._config.stream.spec.repartition else None
        found = [
            next((known[packed] for packed in each if packed in known), None) for each in meanings
        ]
        return [_id_status(raw, each, origins) for raw, each in zip(raw_ids, found, strict=True)]

    def forget(self, raw_ids: list[bytes]) -> int:
        """Forget ids; return how many were in the store.

        In JSON digits mean a text and a number.

        Raises OutputUnread while there is output that would remember them again as soon as it is read.
        """
        with _ends_session(StreamError):
            complete = self._read_foreign()
        if not complete:
            raise OutputUnread(
                "another producer writes to the output topic, and its open transaction hides records: what they have "
                "would be remembered again. Nothing is forgotten yet. Try again when the transaction has ended"
            )
        with _ends_session(StoreCorrupt, DiskFull, StoreFailed):
            source = self._config.stream.spec.id
            packed = [packed for raw in raw_ids for packed in packed_meanings(raw, source)]
            forgotten = self._store.forget(packed)
            self._store.flush_all()  # no log could replay it after a crash
        return forgotten


@contextmanager
def _ends_session(*kinds: type[StreamError]) -> Iterator[None]:
    try:
        yield
    except kinds as error:
        raise StoreUnusable(error) from error


def _id_status(
    raw: bytes, found: tuple[bytes, Generation] | None, origins: Origins | None
) -> IdStatus:
    if found is None:
        return IdStatus(id=raw.decode(), known=False)
    value, generation = found
    return IdStatus(
        id=raw.decode(),
        known=True,
        owner=_owner(value, origins),
        timestamp=_time(timestamp_of(value)),
        generation=generation.name,
        seen_after=_time(generation.first_seen_ms),
        seen_before=_time(generation.last_seen_ms),
    )


def _owner(value: bytes, origins: Origins | None) -> IdOwner | None:
    owner = decode_owner(value[:OWNER_BYTES])
    if owner is None or origins is None:
        return owner and IdOwner(partition=owner[0], offset=owner[1])
    place = origins.place_of(owner[0])
    return place and IdOwner(topic=place[0], partition=place[1], offset=owner[1])


def _time(milliseconds: int | None) -> datetime | None:
    if milliseconds is None:
        return None
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:  # before the year 1
        return None
