"""One simulated world: a cluster, volumes, worker processes, and the schedule that happens to them.

`run` starts a worker for each partition and performs the schedule's steps, each at its moment: mostly within a call of
a worker's client. Then the faults stop, and the workers drain the input. Invariant: of everything here exactly one
thing runs at a time, and who runs next depends on the seed only.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

from dedupe_growth.routed_offsets import decode_routed
from dedupe_kafka.offset_metadata import decode_metadata, split_token
from tests.simulation.kafka.calls import Call, Killed, Moment
from tests.simulation.machines import Seat
from tests.simulation.outside import Outside
from tests.simulation.process import SimProcess, WorkerProcess
from tests.simulation.recorder import FOREIGN
from tests.simulation.schedule.settings import GROUP, OUTPUT, ROUTER_GROUP
from tests.simulation.schedule.steps import Schedule, Step
from tests.simulation.sizes import counted_sizes
from tests.support.checker.outside import EventKind, TopicRole

_DRAIN_SECONDS: Final = 300.0
_CHECK_SECONDS: Final = 1.0
_LONG_SECONDS: Final = 30.0
_FUTURE_SECONDS: Final = 3600.0
"""A broker refuses records that are later than its clock by more (message.timestamp.after.max.ms)."""
_MOST_CALLS: Final = 200_000
_SWITCH_SHARE: Final = 0.3

Listener = Callable[[str], None]


class Stuck(BaseException):
    """The input is not drained in time, or the world does not come to rest.

    Not an `Exception`, because it may be raised within a call of a worker.
    """


class World(Outside):
    """Everything that a schedule happens to."""

    def __init__(self, schedule: Schedule, home: Path, listen: Listener | None = None) -> None:
        super().__init__(schedule, home)
        self.clock.waiter = self._wait
        self.sessions = 0
        self.calls = 0
        self.performed: list[str] = []
        self._listen = listen
        self._sessions_of: dict[str, int] = {}
        self._steps = list(schedule.steps)
        self._matched, self._since = 0, 0.0
        self._drain_until: float | None = None
        self._digest = blake2b(digest_size=16)

    @property
    def digest(self) -> str:
        """Return a hash of all calls so far with their times, and of all records: equal for equal histories."""
        whole = self._digest.copy()
        for topic in self.recorder.incarnations():
            # Of the owner log not the content: it is compressed, and that differs between versions of zlib.
            compressed = topic.role is TopicRole.OWNERS
            for record in (each.record for each in topic.records):
                value = None if compressed else record.value
                whole.update(f"{topic.topic_id} {record.offset} {record.key!r} {value!r}".encode())
        return whole.hexdigest()

    # -- running ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Perform the schedule, and drain the input. Raises Stuck."""
        with counted_sizes(self.settings.bytes_per_id):
            self._run()

    def _run(self) -> None:
        for topic, partitions in self.settings.topics.items():
            self.kafka.create_topic(topic, partitions, self.settings.config_of(topic))
            self.recorder.created(topic)
        try:
            self._start_all()
            while not (self.crashes or (self._over and not self._processes)):
                self._run_next()
        finally:
            self._close()

    def _start_all(self) -> None:
        for seat in self._seats:
            self._start(seat)

    def _run_next(self) -> None:
        """Resume a process that can run, or let time pass until one can."""
        now = self.clock.monotonic()
        ready = [each for each in self._processes if each.runs_at <= now]
        if ready:
            process = ready[0] if len(ready) == 1 else self.random.choice(ready)
            self._running = process
            process.resume()
            self._running = None
            if process.ended:
                self._ended(process)
        else:
            moments = [each.runs_at for each in self._processes]
            moments += [] if self.clock.next_due is None else [self.clock.next_due]
            if self._steps:
                moments.append(self._overdue_at)
            if not moments:
                raise Stuck("no process runs, and nothing is due")
            self.clock.elapse_to(min(moments))
        if self._running is None:
            self._perform_overdue()

    def _wait(self, seconds: float) -> None:
        """Let time pass for whoever runs; others may run meanwhile."""
        process = self._running
        if self._burying:
            return
        until = self.clock.monotonic() + seconds
        if process is None or not self._others_run(process, until):
            self.clock.elapse(seconds)
        else:
            process.wait_until(until)
        if process is not None and process.killed:
            raise Killed

    def _others_run(self, process: SimProcess, until: float) -> bool:
        if process.runs_at > until:
            return True
        return any(each.runs_at <= until for each in self._processes if each is not process)

    # -- calls -----------------------------------------------------------------------------------

    def _on_call(self, process: SimProcess, call: Call) -> None:
        """See every call of every client, before and after it, in the process's fiber."""
        self.calls += 1
        if self.calls > _MOST_CALLS:
            raise Stuck(f"{self.calls} calls, at {self.clock.monotonic():.0f} s")
        moment = "before" if call.moment is Moment.BEFORE else "after"
        now = self.clock.monotonic()
        self._digest.update(
            f"{process.name} {call.name} {moment} {now!r} {self.clock.time()!r}".encode()
        )
        if self._listen:
            self._listen(f"{now:10.3f}  {process.name:8} {call.client}.{call.name} {moment}")
        self.recorder.look(self._writer_of(process))
        if self._steps:
            self._match(process, call)
        if (
            len(self._processes) > 1 and self.random.random() < _SWITCH_SHARE
        ) or process.runs_at > self.clock.monotonic():
            process.wait_until(self.clock.monotonic())

    def _writer_of(self, process: SimProcess) -> str:
        """Return the name under which the records of a process's call are noted."""
        return self._session_of(process) if isinstance(process, WorkerProcess) else process.name

    def _session_of(self, process: WorkerProcess) -> str:
        state = process.factory.worker_state
        number = state.tally.sessions
        name = f"{process.name}.{number}"
        if self._sessions_of.get(process.name) != number:
            self._sessions_of[process.name] = number
            self.sessions += 1
            if number > 1:
                self.recorder.status(process)
            self.recorder.event(
                EventKind.SESSION_STARTED,
                process.partition,
                process=process.name,
                session=name,
            )
        elif process.running_session != number and state.phase.value == "Running":
            process.running_session = number
            self.recorder.status(process)
            process.window = state.window
        else:
            self._look_at_window(process)
        return name

    def _look_at_window(self, process: WorkerProcess) -> None:
        """Note how many generations went when nothing was committed: then they went at once."""
        state, before = process.factory.worker_state, process.window
        if state.window is before:
            return
        process.window = state.window
        committed, process.committed = process.committed, state.tally.transactions
        if committed == process.committed and state.window.generations < before.generations:
            self.recorder.status(process, generations=before.generations)
            self.recorder.status(process)

    @property
    def _overdue_at(self) -> float:
        return self._since + self._steps[0].when.seconds

    def _match(self, process: SimProcess, call: Call) -> None:
        step = self._steps[0]
        when = step.when
        if when.number and step.seat == process.seat:
            of_name = when.name is None or when.name == call.name
            self._matched += of_name and (when.moment is None or when.moment is call.moment)
            if self._matched >= when.number:
                self._perform(step)
                return
        if self.clock.monotonic() >= self._overdue_at:
            self._perform(step)

    def _perform_overdue(self) -> None:
        if self._steps and self.clock.monotonic() >= self._overdue_at:
            self._perform(self._steps[0])
        if not self._steps and self._drain_until is None:
            self._begin_drain()

    def _perform(self, step: Step) -> None:
        self._steps.pop(0)
        self._matched, self._since = 0, self.clock.monotonic()
        if self._listen:
            self._listen(f"{self.clock.monotonic():10.3f}  ** {step.seat}: {step.action}")
        if step.action.fault:
            self.performed.append(step.action.fault)
        try:
            step.action.perform(self, step.partition)
        finally:
            if not self._steps:
                self._begin_drain()
        self.recorder.look(FOREIGN)

    # -- the end ---------------------------------------------------------------------------------

    def _begin_drain(self) -> None:
        if self._drain_until is not None:
            return
        if self.clock.stepped_seconds < -_FUTURE_SECONDS:
            # Up to then the worker would wait: RecordRefused.
            self.step_clock(-self.clock.stepped_seconds)
        frozen = [each.frozen_until for each in self._processes]
        latest = max([self.clock.last_due, *frozen])
        self._drain_until = latest + _DRAIN_SECONDS
        self.clock.after(_CHECK_SECONDS, self._check_drained)

    def _check_drained(self) -> None:
        if self._is_drained():
            self._over = True
            for process in self._processes:
                process.stop.set()
        elif self.clock.last_due > self.clock.monotonic() + _LONG_SECONDS:
            # A worker is down for long, or a transaction of others is open.
            wait_seconds = self.clock.last_due - self.clock.monotonic()
            later = self.clock.last_due + _DRAIN_SECONDS
            self._drain_until = max(self._drain_until or 0.0, later)
            self.clock.after(wait_seconds + _CHECK_SECONDS, self._check_drained)
        elif self.clock.monotonic() > (self._drain_until or 0):
            raise Stuck(f"not drained {_DRAIN_SECONDS:.0f} s after the last fault")
        else:
            self.clock.after(_CHECK_SECONDS, self._check_drained)

    @property
    def _working(self) -> Sequence[Seat]:
        """Return the seats that must have a worker."""
        return self._seats

    def _is_drained(self) -> bool:
        if self.kafka.coordinator.pending:
            return False
        if any(
            s.process is None or s.process.frozen_until > self.clock.monotonic()
            for s in self._working
        ):
            return False
        for seat in self._working:
            place = GROUP, self.settings.worker_input, seat.partition
            if self._has_lost(*place) or not self._is_read(*place):
                return False
            process = seat.process
            if process is None or not process.runs_well or not self._knows_topics(process):
                return False
        return True

    def _is_read(self, group: str, topic: str, partition: int) -> bool:
        """Return whether a group has read all records of a partition that can be read."""
        log = self.kafka.log(topic, partition)
        committed = self.kafka.groups.committed(group, topic, partition)
        start = max(log.low, committed.offset if committed else 0)
        return not log.fetch(start, committed=True, at_most=1).messages

    def _has_lost(self, group: str, topic: str, partition: int) -> bool:
        """Return whether a partition has lost what a group has committed: its readers are about to notice it."""
        found = self.kafka.groups.committed(group, topic, partition)
        if found is None or found.epoch < 0:
            return False
        decode = decode_routed if group == ROUTER_GROUP else decode_metadata
        read_end = decode(split_token(found.metadata)[0] or "").read_end
        end, _ = self.kafka.log(topic, partition).epoch_end(found.epoch)
        return end < (found.offset if read_end is None else read_end)

    def _knows_topics(self, process: WorkerProcess) -> bool:
        """Return whether a running worker has noticed that a topic was created again, as its volume says."""
        if not self.settings.topic_ids:
            return True
        identity = (process.volume.path / "identity.json").read_text()
        names = (self.settings.worker_input, OUTPUT)
        return all(str(self.kafka.topics.get(name).id) in identity for name in names)

    def _close(self) -> None:
        self._over = True
        for process in list(self._processes):
            process.kill()
            self._bury(process)
        for seat in self._seats:
            for volume in (seat.volume, seat.snapshot):
                if volume:
                    volume.delete()
