"""The cost of losing a worker, and of being prepared for it, without Kubernetes.

For each size of the store, all on one stream:

  - its output topic is written, and a worker without a store rebuilds its ids from there;
  - that worker is killed and started again on its store, several times;
  - checkpoints are taken while messages arrive at a steady rate: how long does the output pause around each?
  - a snapshot goes to a bucket, a share of new ids is added, the next snapshot goes there, and so on;
  - a worker without a store starts from the last of them.
"""

import shutil
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

import numpy as np

from benchmarks.harness.model import Model
from benchmarks.harness.processes import BenchmarkFailed, Worker
from benchmarks.harness.s3_server import S3Server
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import Sender
from benchmarks.recovery.bucket import Restore, Upload, measure_restore, measure_uploads
from benchmarks.recovery.pause import Pause, measure_pause

SHARES: Final = (0.001, 0.01, 0.1)
"""Shares of the ids that are added between two snapshots."""
SNAPSHOTS: Final = 5
"""Snapshots of each share: some of them hold what RocksDB has compacted meanwhile."""

_FIRST_NUMBER: Final = 10**9  # of messages that are in the store: the pacer sends those from 0 on
_BYTES_PER_ID: Final = 96  # of the window: an id takes some 36, and about as many are added
_DEADLINE_SECONDS: Final = 1800.0


class Rebuild(Model):
    """A start without a store.

    `seconds` are those of the read of the output, `ready_seconds` from the start of the process until it was ready,
    `cpu_seconds` all it had used by then.
    """

    records: int
    seconds: float
    ready_seconds: float
    cpu_seconds: float

    @property
    def per_second(self) -> float:
        """Records a second of the reconcile."""
        return self.records / self.seconds

    @property
    def per_core(self) -> float:
        """Records a CPU second, the whole start included."""
        return self.records / self.cpu_seconds


class Recovered(Model):
    """All measurements with a store of one size.

    `reattach_seconds` are from the start of a process until it is ready, each after a SIGKILL.
    """

    keys: int
    rebuild: Rebuild
    reattach_seconds: list[float]
    pause: Pause
    uploads: list[Upload]
    restore: Restore

    @property
    def reattach(self) -> float:
        """The median, in seconds."""
        return median(self.reattach_seconds)

    def uploads_after(self, share: float) -> list[Upload]:
        """Return the snapshots that were made after such a share of new ids."""
        added = int(self.uploads[0].added * share)
        return [upload for upload in self.uploads[1:] if upload.added == added]


class Recovery(Model):
    """All sizes, from small to large."""

    sizes: list[Recovered]

    @property
    def largest(self) -> Recovered:
        """The size with the most ids."""
        return self.sizes[-1]


def measure_recovery(
    testbed: Testbed,
    *,
    sizes: Sequence[int],
    rounds: int,
    checkpoints: int,
    report: Callable[[str], None],
) -> Recovery:
    """Measure each size, with so many starts and checkpoints. Raises BenchmarkFailed."""
    with S3Server(testbed.scratch / "s3") as server:
        return Recovery(
            sizes=[
                _measure(
                    testbed, server, size, rounds=rounds, checkpoints=checkpoints, report=report
                )
                for size in sorted(sizes)
            ]
        )


def _measure(
    testbed: Testbed,
    server: S3Server,
    size: int,
    *,
    rounds: int,
    checkpoints: int,
    report: Callable[[str], None],
) -> Recovered:
    source, target = testbed.create_topic("recovery"), testbed.create_topic("recovery-clean")
    home = testbed.scratch / target

    def start(restore_from: str | None = None) -> Worker:
        return Worker(
            *(home, testbed.bootstrap_servers, source, target),
            spec={"snapshots": server.snapshots(), **_room(size)},
            restore_from=restore_from,
            environment=server.environment,
        )

    title = f"{size:,} ids"
    report(f"{title}: writing the output topic")
    sender = Sender(testbed.bootstrap_servers, target)
    sender.send(np.arange(_FIRST_NUMBER, _FIRST_NUMBER + size))
    report(f"{title}: rebuild")
    rebuild = _rebuild(start, size)
    report(f"{title}: reattach")
    reattached = [_reattach(start) for _ in range(rounds)]
    with start() as worker:
        worker.wait_until_ready(_DEADLINE_SECONDS)
        report(f"{title}: {checkpoints} checkpoints under load")
        pause = measure_pause(testbed, worker, source, target, checkpoints)
        report(f"{title}: snapshots to a bucket")
        unsent = _FIRST_NUMBER + size
        uploads = measure_uploads(
            testbed, worker, source, unsent=unsent, shares=SHARES, rounds=SNAPSHOTS
        )
    report(f"{title}: restore from a bucket")
    shutil.rmtree(worker.state_dir)
    restore = measure_restore(server, start, uploads[-1], testbed.scratch)
    testbed.delete_topics(source, target)
    shutil.rmtree(home)
    return Recovered(
        keys=size,
        rebuild=rebuild,
        reattach_seconds=reattached,
        pause=pause,
        uploads=uploads,
        restore=restore,
    )


def _room(size: int) -> dict[str, object]:
    """Return a window over which so many ids spread in several generations.

    So they do in a stream that has run for long.
    """
    largest = size * _BYTES_PER_ID
    return {"store": {"window": {"maxBytes": largest}}, "storage": {"size": 3 * largest}}


def _rebuild(start: Callable[[], Worker], size: int) -> Rebuild:
    with start() as worker:
        ready_seconds, cpu_seconds, done = worker.wait_for_start(_DEADLINE_SECONDS)
    if done.records != size:
        raise BenchmarkFailed(f"not {size} records were read: {done}")
    return Rebuild(
        records=done.records,
        seconds=done.seconds,
        ready_seconds=ready_seconds,
        cpu_seconds=cpu_seconds,
    )


def _reattach(start: Callable[[], Worker]) -> float:
    with start() as worker:
        seconds, _, done = worker.wait_for_start(_DEADLINE_SECONDS)
        worker.kill()
    if done.reason != "Tail":
        raise BenchmarkFailed(f"the store was not taken as it is: {done}")
    return seconds
