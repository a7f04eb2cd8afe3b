"""What the worker shows of itself. The loop's thread writes; HTTP threads read snapshots."""

import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime

from dedupe_crds.spec.stream import DedupeStream
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
from dedupe_kafka.errors import RecordRefused, StreamError

_EMPTY_WINDOW = WindowStatus(
    seconds=0, bytes=0, keys=0, generations=0, truncated=False, healthy=True
)


@dataclass(slots=True)
class Tally:
    """Running totals since the process started: plain integers, because the loop adds to them for every batch."""

    consumed: int = 0
    produced: int = 0
    duplicates: int = 0
    redelivered: int = 0
    without_id: int = 0
    conflicts: int = 0
    late: int = 0
    transactions: int = 0
    aborted_transactions: int = 0
    expired_offsets: int = 0
    sessions: int = 0


class Board:
    """One worker's state, for /status, /readyz, /healthz and /metrics."""

    def __init__(self, stream: DedupeStream, partition: int) -> None:
        self.stream = f"{stream.metadata.namespace}/{stream.metadata.name}"
        self.partition = partition
        self.tally = Tally()
        self.stage_seconds: defaultdict[str, float] = defaultdict(float)
        self.errors: Counter[str] = Counter()
        self.input = InputStatus(topic=stream.spec.input.topic, next_offset=0)
        self.output = OutputStatus(topic=stream.spec.output.topic)
        self.window = _EMPTY_WINDOW
        self.reconcile: ReconcileStatus | None = None
        self.checkpoint: CheckpointStatus | None = None
        self.upload: UploadStatus | None = None
        self.download: DownloadStatus | None = None
        self.bucket_silent_since: float | None = None
        self.comparison: ComparisonStatus | None = None
        self.phase = Phase.STARTING
        self._problem: StreamError | None = None
        self._disturbance: StreamError | None = None
        self._started_at = datetime.now(UTC)
        self._started = self._heartbeat = time.monotonic()

    @property
    def problem(self) -> StreamError | None:
        """What keeps the worker from its work."""
        return self._problem or self._disturbance

    @property
    def ready(self) -> bool:
        """Reconciled, and nothing keeps it from its work."""
        return self.phase is Phase.RUNNING and self.problem is None

    @property
    def heartbeat_age_seconds(self) -> float:
        """Time since the loop last went round."""
        return time.monotonic() - self._heartbeat

    def beat(self) -> None:
        """The loop has gone round."""
        self._heartbeat = time.monotonic()

    def disturb(self, error: StreamError) -> None:
        """Kafka's client says that it can't reach the cluster; it goes on trying by itself."""
        if self._disturbance is None:
            self.errors[error.reason] += 1
        self._disturbance = error

    def calm(self) -> None:
        """Kafka has answered."""
        self._disturbance = None

    @property
    def disturbance(self) -> StreamError | None:
        """What Kafka's client last complained of and has not got over."""
        return self._disturbance

    def fail(self, error: StreamError) -> None:
        """Name what is wrong."""
        self._problem = error
        self.errors[error.reason] += 1
        self.phase = Phase.FAILED

    def enter(self, phase: Phase) -> None:
        """Begin a phase.

        What was wrong is shown until it has been got over: a try that has only begun is no reason to call the
        worker ready, or to take the cause off the screen.
        """
        self.phase = phase
        begun_only = phase in {Phase.STARTING, Phase.RESTORING}
        if not begun_only and not isinstance(self._problem, RecordRefused):
            self._problem = None
        self.beat()

    def recover(self) -> None:
        """Records have been passed on: whatever was wrong is over."""
        self._problem = None

    def status(self) -> WorkerStatus:
        """A snapshot."""
        tally = self.tally
        problem = self.problem
        return WorkerStatus(
            stream=self.stream,
            partition=self.partition,
            phase=self.phase,
            ready=self.ready,
            reason=problem.reason if problem else None,
            message=str(problem) if problem else None,
            started_at=self._started_at,
            uptime_seconds=time.monotonic() - self._started,
            input=self.input,
            output=self.output,
            counts=Counts(
                consumed=tally.consumed,
                produced=tally.produced,
                duplicates=tally.duplicates,
                redelivered=tally.redelivered,
                without_id=tally.without_id,
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
