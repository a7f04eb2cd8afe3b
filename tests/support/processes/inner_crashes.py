"""Where a worker may be stopped inside one of its parts, between two acts that its loop sees as one.

Beside `crashes`, whose steps lie between the parts. `FaultWorkers` starts workers with either.
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
    """A moment inside a part; the n-th time it comes, a signal is sent."""

    READING = "reading"
    """The client of the input stops fetching, without a word; no signal is needed."""
    RECORDS_SENT = "records-sent"
    """The broker holds the records of an open transaction, and no input offset with them."""
    OFFSETS_SENT = "offsets-sent"
    """Records and input offset are in the transaction, which is not committed."""
    COMMITTED = "committed"
    """The transaction is committed, and the worker has not heard of it."""
    SEALING = "sealing"
    """The newest generation is full, and in part in memory only."""
    SEALED = "sealed"
    """The newest generation is flushed and has no successor."""
    SUCCESSOR_BEGUN = "successor-begun"
    """The new generation is there, and empty."""
    DROPPING = "dropping"
    """The window is marked as truncated, and the oldest generation still there."""
    DROPPED = "dropped"
    """The oldest generation is gone."""
    AMENDING = "amending"
    """A full reconcile is about to add ids to a generation, or to remove some."""
    SETTLED = "settled"
    """What a full reconcile has changed is on disk, and its answer is not."""
    FLUSHING_AT_END = "flushing-at-end"
    """The loop has ended, and the newest ids are in memory only."""
    CLOSING = "closing"
    """Everything is on disk, and the store is open."""
    CHECKPOINT_BEGUN = "checkpoint-begun"
    """The checkpoint's directory is there, and empty."""
    DISCARDING = "discarding"
    """Half of the files of a store that can't be trusted are deleted."""
    DISCARDED = "discarded"
    """The untrusted store is gone, and the identity on record is that of before."""
    IDENTITY_RECORDED = "identity-recorded"
    """The identity is on record, and the store that it speaks of is not there."""


@dataclass(frozen=True, kw_only=True)
class InnerCrash:
    """Send a signal at the n-th time of a point, counted from 1; signal 0 is none.

    `pid` receives it, without one the worker itself. With `flushed` the newest generation is on disk by then, where
    RocksDB may have it at any moment. `window_bytes` replaces the manifest's bound of the window by one that is
    too small for a manifest, `stuck_seconds` how long the loop may hang.
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
        """What tells a worker of it."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls) -> Self:
        """Read the crash from the environment, in the worker."""
        fields = json.loads(os.environ[VARIABLE])
        return cls(**{**fields, "point": Point(fields["point"])})


class FaultWorkers(Workers):
    """Workers that may be stopped inside their parts as well."""

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
            module="tests.support.processes.inner_worker",
            environment=crash.environment,
        )
        self._started.append(worker)
        return worker
