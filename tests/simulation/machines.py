"""The machines of a simulated world: volumes, and the worker processes on them.

A seat is the place of a partition's worker: its volume while no process has it, and what happens to it before the next
start. Something like a kubelet starts a process again that has ended. Invariant: a volume belongs to one process or to
one seat.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.exit_code import ExitCode
from dedupe_worker.admin.commands import Command, StoreCommands
from dedupe_worker.admin.reconcile_requests import ReconcileRunning
from dedupe_worker.config import WorkerConfig
from dedupe_worker.store.state_dir import StateDirectory
from tests.simulation.clock import SimClock
from tests.simulation.disk import Volume
from tests.simulation.kafka.calls import Call, Killed
from tests.simulation.kafka.cluster import SimKafka
from tests.simulation.process import SimProcess, WorkerProcess, close_left_open
from tests.simulation.recorder import Recorder
from tests.simulation.schedule.settings import AcceptedLoss, stream_of
from tests.simulation.schedule.steps import Schedule
from tests.support.checker.outside import EventKind

_RESTART_SECONDS: Final = 1.0

unexpected: Final[list[str]] = []
"""Tracebacks of errors that ended a worker and have no name."""


@dataclass(slots=True)
class Seat:
    """A partition's place: its volume while no worker has it, and what happens to it before the next start."""

    partition: int
    volume: Volume | None
    process: WorkerProcess | None = None
    snapshot: Volume | None = None
    snapshot_ms: int = 0
    starts: int = 0
    down_seconds: float | None = None
    exchange: str | None = None
    damage: float | None = None
    swap_with: "Seat | None" = None
    swapped: bool = False
    expected_down: bool = field(default=False)


class Machines(ABC):
    """The seats and processes of a world, with what happens to them."""

    def __init__(self, schedule: Schedule, home: Path) -> None:
        self.schedule = schedule
        self.settings = schedule.settings
        self.clock = SimClock()
        self.random = Random(f"{schedule.seed} world")
        self.kafka = SimKafka(self.clock, topic_ids=self.settings.topic_ids)
        self.kafka.most_in_batch = Random(f"{schedule.seed} batches").choice([7, 10_000])
        self.recorder = Recorder(self.kafka, self.clock, self.settings)
        self.crashes: list[str] = []
        self._home = home
        self._seats = [
            Seat(partition, self._new_volume(partition)) for partition in range(self.settings.seats)
        ]
        self._processes: list[SimProcess] = []
        self._running: SimProcess | None = None
        self._burying = False
        self._over = False
        self._rest_until = 0.0
        self._accepted: tuple[AcceptedLoss, ...] = ()

    @abstractmethod
    def _on_call(self, process: SimProcess, call: Call) -> None:
        """See every call of every client, in the process's fiber."""

    # -- processes -------------------------------------------------------------------------------

    def _new_volume(self, partition: int) -> Volume:
        return Volume(self._home, f"p{partition}")

    def _manifest(self, partition: int) -> DedupeStream:  # noqa: ARG002 (the interface)
        """Return the manifest with which a worker starts."""
        return stream_of(self.settings, accepted=self._accepted)

    def _start(self, seat: Seat) -> None:
        """Start a worker on the seat's volume."""
        seat.starts += 1
        seat.expected_down = False
        volume = seat.volume or self._new_volume(seat.partition)
        seat.volume = None
        config = WorkerConfig(
            stream=self._manifest(seat.partition),
            partition=seat.partition,
            state=StateDirectory(volume.path),
            properties={},
        )
        name = f"p{seat.partition}#{seat.starts}"
        seat.process = WorkerProcess(
            name,
            config,
            volume,
            kafka=self.kafka,
            clock=self.clock,
            on_call=self._on_call,
            random=Random(f"{self.schedule.seed} {name}"),
        )
        self._processes.append(seat.process)
        self.recorder.event(EventKind.WORKER_STARTED, seat.partition, process=name)

    def _ended(self, process: SimProcess) -> None:
        """Do what follows the end of a process."""
        self._processes.remove(process)
        failed = process.exit_code is ExitCode.FAILED and process.problem is None
        if failed and not process.killed:
            last = unexpected.pop() if unexpected else "unknown"
            self.crashes.append(f"crashed: {process.name} ended on an unexpected error: {last}")
            self._over = True
        if isinstance(process, WorkerProcess):
            self._worker_ended(process)

    def _worker_ended(self, process: WorkerProcess) -> None:
        """Take the volume of an ended worker back, and start the next one."""
        code = None if process.killed else process.exit_code
        if not process.killed:
            self.recorder.status(process)
            process.kill()
        self.recorder.event(
            EventKind.WORKER_ENDED, process.partition, process=process.name, exit_code=code
        )
        close_left_open()
        process.bury()
        seat = self._seats[process.partition]
        if seat.process is not process:  # an older worker, which a second one has fenced
            process.volume.delete()
            return
        seat.process, seat.volume = None, process.volume
        if not self._over:
            delay = seat.down_seconds if seat.down_seconds is not None else _RESTART_SECONDS
            seat.down_seconds = None
            self.clock.after(delay, lambda: self._restart(seat))

    def _restart(self, seat: Seat) -> None:
        other = seat.swap_with
        if seat.process is not None or self._over:
            return
        rest_seconds = self._rest_until - self.clock.monotonic()
        if rest_seconds > 0:
            self.clock.after(rest_seconds, lambda: self._restart(seat))
            return
        if other is not None:
            if other.process is not None:
                self.clock.after(_RESTART_SECONDS, lambda: self._restart(seat))
                return
            if _is_owned(seat.volume) and _is_owned(other.volume):
                seat.volume, other.volume = other.volume, seat.volume
                seat.swapped = other.swapped = not seat.swapped
            seat.swap_with = other.swap_with = None
        self._exchange(seat)
        self._start(seat)

    def _exchange(self, seat: Seat) -> None:
        """Do to a volume without a worker what the schedule has for it.

        A volume that is swapped is not replaced: the other worker would get one that it must refuse for ever.
        """
        if seat.swapped:
            seat.exchange = None
        if seat.exchange == "empty" or (seat.exchange == "snapshot" and seat.snapshot is None):
            self._drop_volume(seat)
            seat.volume = self._new_volume(seat.partition)
            self.recorder.event(EventKind.VOLUME_LOST, seat.partition)
        elif seat.exchange == "snapshot" and seat.snapshot:
            self._drop_volume(seat)
            seat.volume = seat.snapshot.after_kill()
            self.recorder.event(EventKind.STORE_RESTORED, seat.partition, as_of_ms=seat.snapshot_ms)
        seat.exchange = None
        if seat.damage is not None and seat.volume:
            if _damage(seat.volume.path, seat.damage):
                partition = None if seat.swapped else seat.partition
                self.recorder.event(EventKind.STORE_DAMAGED, partition)
            seat.damage = None

    def _drop_volume(self, seat: Seat) -> None:
        if seat.volume:
            seat.volume.delete()
            seat.volume = None

    def _bury(self, process: SimProcess) -> None:
        """Run a process that was killed, and is not the one that runs, to its end."""
        running, self._running, self._burying = self._running, process, True
        process.finish()
        self._running, self._burying = running, False
        self._ended(process)

    # -- what steps do ---------------------------------------------------------------------------

    def is_running(self, partition: int) -> bool:
        """Return whether the partition's worker makes the present call."""
        return self._running is not None and self._running.seat == f"p{partition}"

    def restart_later(self, partition: int, seconds: float) -> None:
        """Say how long the partition's worker is down after its next end."""
        seat = self._seats[partition]
        seat.down_seconds = max(seconds, seat.down_seconds or 0.0)

    def kill(self, partition: int, *, power: bool) -> None:
        """End a worker at once. Raises Killed in its own fiber."""
        process = self._seats[partition].process
        if process is None:
            return
        self.recorder.status(process)
        image = (
            process.volume.after_power_loss(self.random) if power else process.volume.after_kill()
        )
        if power:
            self.recorder.event(EventKind.UNSYNCED_LOST, partition)
        process.kill(image)
        if process is self._running:
            raise Killed
        self._bury(process)

    def stop(self, partition: int) -> None:
        """Let a worker stop."""
        process = self._seats[partition].process
        if process:
            process.stop.set()

    def freeze(self, partition: int, seconds: float) -> None:
        """Let a worker stand still from its present call on."""
        process = self._seats[partition].process
        if process:
            process.frozen_until = self.clock.monotonic() + seconds
            self.recorder.event(EventKind.FROZEN, partition)

    def start_second(self, partition: int, volume: str) -> None:
        """Start another worker of a partition; the first one runs on."""
        seat = self._seats[partition]
        if seat.process is None or seat.swapped or seat.swap_with:
            return  # its volume would go to the other partition, which must refuse it for ever
        if volume == "copy":
            seat.volume = seat.process.volume.after_kill()
        elif volume == "snapshot" and seat.snapshot:
            seat.volume = seat.snapshot.after_kill()
            self.recorder.event(EventKind.STORE_RESTORED, partition, as_of_ms=seat.snapshot_ms)
        else:
            self.recorder.event(EventKind.VOLUME_LOST, partition)
        self._start(seat)

    def take_snapshot(self, partition: int) -> None:
        """Keep a copy of a volume, unless it is another partition's."""
        seat = self._seats[partition]
        volume = seat.process.volume if seat.process else seat.volume
        if volume and not seat.swapped:
            if seat.snapshot:
                seat.snapshot.delete()
            seat.snapshot, seat.snapshot_ms = volume.after_kill(), self.recorder.now_ms

    def replace_volume(self, partition: int, volume: str) -> None:
        """Replace a volume before the next start."""
        self._seats[partition].exchange = volume

    def swap_volumes(self, partition: int, other: int, seconds: float) -> None:
        """Let two workers have each other's volume for a while."""
        self.clock.after(seconds, lambda: self._swap_back(partition, other))
        self._swap(partition, other)

    def _swap_back(self, *partitions: int) -> None:
        seats = [self._seats[each] for each in partitions]
        if any(seat.swapped for seat in seats):
            self._swap(*partitions)
        for seat in seats:
            seat.swap_with = seat.swap_with if seat.swapped else None

    def _swap(self, *partitions: int) -> None:
        seats = [self._seats[each] for each in partitions]
        for seat, other in zip(seats, reversed(seats), strict=True):
            seat.swap_with = other
            seat.down_seconds = max(2.0, seat.down_seconds or 0.0)
        for seat in sorted(seats, key=lambda each: each.process is self._running):
            self.kill(seat.partition, power=False)  # of the process that runs this raises Killed

    def damage_later(self, partition: int, place: float) -> None:
        """Damage the store before the next start."""
        self._seats[partition].damage = place

    def command(self, partition: int, command: Command) -> None:
        """Queue an admin command; nobody waits for its answer."""
        process = self._seats[partition].process
        if process:
            process.commands.submit(command)

    def forget(self, partition: int, ids: list[bytes]) -> None:
        """Let the worker forget ids. A worker that ends before it does so has not."""

        process = self._seats[partition].process

        def forget(store: StoreCommands) -> None:
            store.forget(ids)
            name = process.name if process else ""
            self.recorder.event(EventKind.FORGOTTEN, partition, process=name, ids=frozenset(ids))

        self.command(partition, forget)

    def reconcile(self, partition: int, request: str, *, full: bool) -> None:
        """Ask for a reconcile."""
        process = self._seats[partition].process
        if process:
            try:
                process.factory.requests.ask(request, full=full)
            except ReconcileRunning:
                return


def _is_owned(volume: Volume | None) -> bool:
    """Return whether a worker would notice that a volume is another's: an empty one becomes its own for ever."""
    return volume is not None and (volume.path / "identity.json").exists()


def _damage(directory: Path, place: float) -> bool:
    """Change one byte of a table of a store; return whether there is one."""
    files = sorted(path for path in (directory / "db").glob("*") if path.suffix in {".sst", ".seg"})
    if not files:
        return False
    path = files[int(place * len(files)) % len(files)]
    content = bytearray(path.read_bytes())
    where = int(place * 997 * len(content)) % max(1, len(content) // 2)
    content[where] ^= 0xFF
    path.unlink()  # not the file that a checkpoint or a snapshot is linked to
    path.write_bytes(bytes(content))
    return True
