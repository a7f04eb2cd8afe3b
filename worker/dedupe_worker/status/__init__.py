"""The worker's runtime state in memory.

The loop's thread writes it; HTTP threads read snapshots of it for /status, /readyz, /healthz and /metrics.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import timedelta

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.key_sample import KeySample
from dedupe_crds.status.worker import (
    CheckpointStatus,
    ComparisonStatus,
    Counts,
    DownloadStatus,
    InputStatus,
    OutputStatus,
    Phase,
    ReconcileStatus,
    UploadStatus,
    WindowStatus,
    WorkerStatus,
)
from dedupe_kafka.errors import HoldingRecord, StreamError
from dedupe_worker.status.degradations import Degradations, Degraded
from dedupe_worker.store.api import IdStore

__all__ = [
    "Degradations",
    "Degraded",
    "Progress",
    "Tally",
    "WorkerState",
    "show_progress",
    "window_status",
]

_EMPTY_WINDOW = WindowStatus(
    seconds=0, bytes=0, keys=0, generations=0, truncated=False, healthy=True
)


@dataclass(slots=True)
class Tally:
    """Running totals since the process started.

    They are plain integers, because the loop adds to them for each batch. `missing_ids` has those `without_id` by why.
    """

    consumed: int = 0
    produced: int = 0
    duplicates: int = 0
    redelivered: int = 0
    sent_on: int = 0
    without_id: int = 0
    conflicts: int = 0
    late: int = 0
    transactions: int = 0
    aborted_transactions: int = 0
    expired_offsets: int = 0
    sessions: int = 0
    missing_ids: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Progress:
    """Records read so far, and offsets still to read (an upper bound of records)."""

    records: int
    remaining: int
    seconds: float


class WorkerState:
    """The state of one worker."""

    def __init__(self, stream: DedupeStream, partition: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self._monotonic = clock.monotonic
        self.stream = stream.shown
        self.partition = partition
        self.tally = Tally()
        self.stage_seconds: defaultdict[str, float] = defaultdict(float)
        self.errors: Counter[str] = Counter()
        self.degradations = Degradations(clock)
        self.input = InputStatus(topic=stream.spec.worker_input, next_offset=0)
        self.known_input_end = -1  # of the same topic for certain; see input_offset.py
        self.output = OutputStatus(topic=stream.spec.output.topic)
        self._window = _EMPTY_WINDOW
        self.reconcile: ReconcileStatus | None = None
        self.checkpoint: CheckpointStatus | None = None
        self.upload: UploadStatus | None = None
        self.download: DownloadStatus | None = None
        self.bucket_silent_since: float | None = None
        self.comparison: ComparisonStatus | None = None
        self.phase = Phase.STARTING
        self._problem: StreamError | None = None
        self._client_error: StreamError | None = None
        self._waiting: StreamError | None = None
        self._started_at = clock.now()
        self._started = self._heartbeat = self._monotonic()

    @property
    def window(self) -> WindowStatus:
        """Return the window of the store; setting it reports whether it is shortened."""
        return self._window

    @window.setter
    def window(self, window: WindowStatus) -> None:
        self._window = window
        if window.healthy:
            self.degradations.clear(Degraded.WINDOW_SHORTENED)
        else:
            self.degradations.hold(
                Degraded.WINDOW_SHORTENED,
                "ids younger than spec.store.window.alertBelow were lost, or evicted because of maxBytes; "
                "their repeats pass",
            )

    @property
    def problem(self) -> StreamError | None:
        """Return the error that blocks the worker, if any."""
        return self._waiting or self._problem or self._client_error

    @property
    def ready(self) -> bool:
        """Return whether the worker has caught up and nothing blocks it."""
        return self.phase is Phase.RUNNING and self.problem is None

    @property
    def heartbeat_age_seconds(self) -> float:
        """Return the seconds since the last heartbeat."""
        return self._monotonic() - self._heartbeat

    def show_partitions(self, partitions: int, keys: KeySample | None, problem: str) -> None:
        """Show the input's partition count and key sample, and a problem of partitions."""
        self.input = self.input.model_copy(update={"partitions": partitions, "keys": keys})
        if problem:
            self.degradations.hold(Degraded.INPUT_PARTITIONS_ADDED, problem)
        else:
            self.degradations.clear(Degraded.INPUT_PARTITIONS_ADDED)

    def forget_input_end(self) -> None:
        """Forget the end of the input, which an earlier session has found."""
        self.input = self.input.model_copy(update={"end_offset": None, "lag_messages": None})

    def heartbeat(self) -> None:
        """Record that the loop, or whatever runs before it, makes progress."""
        self._heartbeat = self._monotonic()

    def report_client_error(self, error: StreamError) -> None:
        """Record that the Kafka client cannot reach the cluster; the client retries."""
        if self._client_error is None:
            self.errors[error.reason] += 1
        self._client_error = error

    def clear_client_error(self) -> None:
        """Record that Kafka has answered."""
        self._client_error = None

    @property
    def client_error(self) -> StreamError | None:
        """Return the last error of the Kafka client, if Kafka has not answered since."""
        return self._client_error

    def report_waiting(self, error: StreamError) -> None:
        """Record what the session waits for, as long as it does; this is a heartbeat."""
        if self._waiting is None:
            self.errors[error.reason] += 1
        self._waiting = error
        self.heartbeat()

    def clear_waiting(self) -> None:
        """Record that the session no longer waits."""
        self._waiting = None

    def report_failure(self, error: StreamError) -> None:
        """Record the error that ended a session or the worker."""
        self._problem = error
        self.errors[error.reason] += 1
        self.phase = Phase.FAILED

    def set_phase(self, phase: Phase) -> None:
        """Begin a phase.

        The last failure stays visible until the worker is past it: a retry that has only begun, or a stop, is no reason
        to report the worker ready, or to hide the cause.
        """
        self.phase = phase
        keeps_failure = phase in {Phase.STARTING, Phase.RESTORING, Phase.STOPPING}
        if not keeps_failure and not isinstance(self._problem, HoldingRecord):
            self._problem = None
        self.heartbeat()

    def clear_failure(self) -> None:
        """Forget the last failure, because records have been committed since."""
        self._problem = None

    def status(self) -> WorkerStatus:
        """Return a snapshot of the state."""
        tally = self.tally
        problem = self.problem
        return WorkerStatus(
            stream=self.stream,
            partition=self.partition,
            phase=self.phase,
            ready=self.ready,
            reason=problem.reason if problem else None,
            message=str(problem) if problem else None,
            degraded=self.degradations.current(),
            started_at=self._started_at,
            uptime_seconds=self._monotonic() - self._started,
            input=self.input,
            output=self.output,
            counts=Counts(
                consumed=tally.consumed,
                produced=tally.produced,
                duplicates=tally.duplicates,
                redelivered=tally.redelivered,
                sent_on=tally.sent_on,
                without_id=tally.without_id,
                missing_ids=dict(tally.missing_ids),
                conflicts=tally.conflicts,
                late=tally.late,
                transactions=tally.transactions,
                aborted_transactions=tally.aborted_transactions,
            ),
            window=self.window,
            reconcile=self.reconcile,
            checkpoint=self.checkpoint,
            upload=self.upload,
            download=self.download,
            comparison=self.comparison,
        )


def show_progress(worker_state: WorkerState, reason: str, progress: Progress) -> None:
    """Show the progress of a catch-up or a full reconcile; `reason` is for users."""
    worker_state.heartbeat()
    worker_state.reconcile = ReconcileStatus(
        reason=reason,
        records=progress.records,
        remaining=progress.remaining,
        seconds=progress.seconds,
    )


def window_status(store: IdStore, alert_below: timedelta, now_ms: int) -> WindowStatus:
    """Return the status of a store's window.

    A window that is still filling is healthy, however short.
    """
    generations = store.generations()
    seconds = store.window_seconds(now_ms)
    truncated = bool(store.metadata and store.metadata.truncated)
    return WindowStatus(
        seconds=seconds,
        bytes=sum(g.size_bytes for g in generations),
        keys=sum(g.keys for g in generations),
        generations=len(generations),
        truncated=truncated,
        healthy=not truncated or seconds >= alert_below.total_seconds(),
    )
