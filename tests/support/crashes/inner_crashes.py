"""Points inside a worker's components at which a fault may hit.

They lie within an operation of the loop, whereas the steps of `steps` lie between operations. `FaultWorkers` starts
workers with either.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from signal import SIGKILL
from typing import Self

from tests.support.processes.processes import WorkerProcess, Workers
from tests.support.traffic.streams import TestStream

VARIABLE = "INNER_CRASH"
MARKER = "fault"
"""The event a worker logs before a fault."""


class Point(StrEnum):
    """A point in a component; when it is reached the n-th time, a signal is sent."""

    READING = "reading"
    """The input's client stops fetching without an error; no signal is needed."""
    RECORDS_SENT = "records-sent"
    """The broker has the records of an open transaction, but no input offset."""
    OFFSETS_SENT = "offsets-sent"
    """Records and input offset are in the transaction, which is not committed."""
    COMMITTED = "committed"
    """The transaction is committed, but the worker has no answer yet."""
    SEALING = "sealing"
    """The newest generation is full, and partly in memory only."""
    SEALED = "sealed"
    """The newest generation is flushed and has no successor."""
    SUCCESSOR_BEGUN = "successor-begun"
    """The new generation exists and is empty."""
    DROPPING = "dropping"
    """The window is marked as truncated, but the oldest generation still exists."""
    DROPPED = "dropped"
    """The oldest generation is deleted."""
    AMENDING = "amending"
    """A full reconcile is about to add ids to a generation, or to remove ids."""
    SETTLED = "settled"
    """The changes of a full reconcile are on disk, but its result is not."""
    FLUSHING_AT_END = "flushing-at-end"
    """The loop has ended; the newest ids are in memory only."""
    CLOSING = "closing"
    """Everything is on disk; the store is still open."""
    CHECKPOINT_BEGUN = "checkpoint-begun"
    """The checkpoint's directory exists and is empty."""
    DISCARDING = "discarding"
    """Half of the files of an untrusted store are deleted."""
    DISCARDED = "discarded"
    """The new store is begun; the recorded identity is the previous one."""
    IDENTITY_RECORDED = "identity-recorded"
    """The identity is recorded, and so is the topic of the committed offset."""


@dataclass(frozen=True, kw_only=True)
class InnerCrash:
    """Send a signal when a point is reached the n-th time, counted from 1.

    Signal 0 is none. Process `pid` gets it, or the worker itself if that is None. With `flushed` the newest generation
    is flushed before, as RocksDB may flush it at any moment. `window_bytes` replaces the manifest's bound of the window
    by a bound that is too small for a manifest. `stuck_seconds` is the time after which a hanging loop ends the worker.
    """

    point: Point
    time: int = 1
    signal: int = SIGKILL
    pid: int | None = None
    flushed: bool = False
    window_bytes: int | None = None
    stuck_seconds: float | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables that pass this to a worker."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls) -> Self:
        """Read it from the worker's environment variables."""
        fields = json.loads(os.environ[VARIABLE])
        return cls(**{**fields, "point": Point(fields["point"])})


class FaultWorkers(Workers):
    """Starts workers that may also be hit inside their components."""

    def start_towards(
        self,
        stream: TestStream,
        crash: InnerCrash,
        *,
        partition: int = 0,
        state_dir: Path | None = None,
        arguments: Sequence[str | Path] = (),
    ) -> WorkerProcess:
        """Start a worker that will meet `crash`; otherwise as `start`."""
        directory = state_dir or self.state_dir(stream, partition)
        worker = WorkerProcess(
            stream,
            partition,
            directory,
            arguments=arguments,
            module="tests.support.crashes.inner_worker",
            environment=crash.environment,
        )
        self._started.append(worker)
        return worker
