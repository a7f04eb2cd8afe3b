"""A peer's turn: started, watched by its output, killed, and started again.

It ends when the output is complete, and nothing more has arrived for a while.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from benchmarks.harness.check import Output
from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.harness.testbed import Testbed
from benchmarks.harness.traffic import Traffic
from benchmarks.peers.output import OutputTopic, Topic
from benchmarks.peers.peer import Job, Peer
from benchmarks.peers.processes import PeerProcesses
from benchmarks.peers.traffic import Input
from dedupe_crds.spec.repartition import REPARTITION_SUFFIX

_POLL_SECONDS: Final = 0.2
_SETTLE_SECONDS: Final = 6.0  # longer than any of the peers takes between two commits
_LOST_SECONDS: Final = 90.0  # longer than any of them takes to start again after a kill
_STALL_SECONDS: Final = 120.0
_MOST_EXITS: Final = 20
_LOG_LINES: Final = 15


class Turn(NamedTuple):
    """A peer's turn."""

    peer: Peer
    job: Job
    target: OutputTopic
    sent: Traffic

    @property
    def expected(self) -> int:
        """Records that must be in the output."""
        return len(self.sent.first_at if self.peer.removes_duplicates else self.sent.numbers)

    @property
    def repartition_topic(self) -> Topic:
        """The topic between our routers and workers, if there are routers."""
        return Topic(self.job.servers, f"{self.job.target}{REPARTITION_SUFFIX}")

    def start(self) -> PeerProcesses:
        """Start the peer, for the first time or again."""
        return PeerProcesses(self.peer, self.job, self.job.state / "log")

    def judge(self) -> Output:
        """Read all of the output."""
        return self.target.judge(self.sent, deduplicated=self.peer.removes_duplicates)

    def explain(self, what: str) -> str:
        """Return a description of an event, with the end of the peer's log."""
        log = self.job.state / "log"
        lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return "\n".join([f"{self.peer.title} {what}; the end of its log:", *lines])


@contextmanager
def turn_of(testbed: Testbed, peer: Peer, source: Input) -> Iterator[Turn]:
    """Provide a new output topic and an empty state directory; remove both afterwards."""
    target = OutputTopic(testbed, peer.name)
    state = testbed.scratch / target.name
    state.mkdir()
    job = Job(testbed.bootstrap_servers, source.topic, target.name, state, source.records)
    try:
        yield Turn(peer, job, target, source.sent)
    finally:
        target.delete()
        shutil.rmtree(state, ignore_errors=True)


class Written:
    """True when so many offsets are written, at least one more than at first."""

    def __init__(self, turn: Turn, offsets: float) -> None:
        self._turn = turn
        self._enough = max(offsets, turn.target.written() + 1)

    def __call__(self) -> bool:
        """Ask the broker."""
        return self._turn.target.written() >= self._enough


class Settled:
    """True when the output is complete and nothing more has arrived for a while.

    Offsets alone do not show it: transaction markers, aborted records and duplicates take offsets, too. So the
    output is judged when it is quiet, and missing records count as lost only when it stays quiet for long. `output`
    is the last judgement.
    """

    def __init__(self, turn: Turn) -> None:
        self.output: Output | None = None
        self._turn = turn
        self._committed, self._since = -1, time.monotonic()

    def __call__(self) -> bool:
        """Ask the broker; to be called repeatedly."""
        committed, now = self._turn.target.committed(), time.monotonic()
        if committed != self._committed:
            self._committed, self._since, self.output = committed, now, None
        quiet, enough = now - self._since, committed >= self._turn.expected
        if quiet < (_SETTLE_SECONDS if enough else _LOST_SECONDS):
            return False
        self.output = self.output or self._turn.judge()
        return not self.output.verdict.lost or quiet >= _LOST_SECONDS


def work_until(turn: Turn, reached: Callable[[], bool], *, then_kill: bool) -> int:
    """Let a peer work until `reached`; return how often it had to be started again.

    Raises BenchmarkFailed.
    """
    for own_exits in range(_MOST_EXITS):
        with turn.start() as processes:
            is_reached = follow(turn, processes, reached)
            if then_kill and is_reached:
                processes.kill()
        if is_reached:
            return own_exits
    raise BenchmarkFailed(turn.explain(f"has exited {_MOST_EXITS} times"))


def follow(turn: Turn, processes: PeerProcesses, reached: Callable[[], bool]) -> bool:
    """Wait until something is reached; return False if a process fails before.

    Raises BenchmarkFailed if nothing is written for long.
    """
    written, since = -1, time.monotonic()
    while not reached():
        if any(processes.exit_codes):  # the bare loop ends with 0 when all is copied
            return False
        latest, now = turn.target.written(), time.monotonic()
        if latest != written:
            written, since = latest, now
        elif now - since > _STALL_SECONDS:
            raise BenchmarkFailed(turn.explain(f"has written nothing for {now - since:.0f} s"))
        time.sleep(_POLL_SECONDS)
    return True
