"""The runtime state of a router, from which /status and the metrics are made.

The loop's thread writes it, the threads of HTTP read it. Invariant: a failure stays visible until records are
committed again.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dedupe_crds.clock import SYSTEM_CLOCK, Clock
from dedupe_crds.formatting import listed
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.router import (
    RepartitionTopicStatus,
    RouterCounts,
    RouterInput,
    RouterPhase,
    RouterStatus,
)
from dedupe_kafka.errors import BrokerUnavailable, NotAuthorized, StreamError

# Longer than a bounded call to Kafka, such as the one that waits for the transaction of a partition's former owner.
_SILENT_SECONDS: Final = 30.0
_SILENCE: Final = BrokerUnavailable(
    f"nothing was read or committed for {_SILENT_SECONDS:.0f} s: Kafka has not answered a request yet"
)


@dataclass(slots=True)
class Tally:
    """Counters since the process started."""

    routed: int = 0
    without_id: int = 0
    bytes: int = 0
    transactions: int = 0
    aborted_transactions: int = 0
    rebalances: int = 0


class RouterState:
    """The state of one router."""

    def __init__(self, stream: DedupeStream, router: int, clock: Clock = SYSTEM_CLOCK) -> None:
        self.stream = stream.shown
        self.router = router
        repartition = stream.spec.repartition
        self.most_held_bytes = repartition.topic.max_bytes if repartition else 0
        self.tally = Tally()
        self.errors: Counter[str] = Counter()
        self.warnings: dict[str, str] = {}
        self.inputs: Sequence[RouterInput] = ()
        self.output: RepartitionTopicStatus | None = None
        self.phase = RouterPhase.STARTING
        self.is_member = False
        self.epoch = 0
        self._blocked: Sequence[StreamError] = ()
        self._failure: StreamError | None = None
        self._client_error: StreamError | None = None
        self._clock = clock
        self._started_at = clock.now()
        self._started = self._heartbeat = clock.monotonic()

    @property
    def problem(self) -> StreamError | None:
        """Return the error that keeps the router from routing, if any."""
        # The client tells of errors only while it is called, and not from within a call that waits.
        silent = self.phase is RouterPhase.RUNNING and self.heartbeat_age_seconds > _SILENT_SECONDS
        blocked = next(iter(self._blocked), None)
        return self._failure or blocked or self._client_error or (_SILENCE if silent else None)

    @property
    def client_error(self) -> StreamError | None:
        """Return the last error of the Kafka client, if Kafka has not answered since."""
        return self._client_error

    @property
    def ready(self) -> bool:
        """Return whether it is a member of the group and nothing keeps it from routing."""
        return self.phase is RouterPhase.RUNNING and self.is_member and self.problem is None

    @property
    def heartbeat_age_seconds(self) -> float:
        """Return the seconds since the last heartbeat."""
        return self._clock.monotonic() - self._heartbeat

    def heartbeat(self) -> None:
        """Record that the loop, or a wait for a retry, makes progress."""
        self._heartbeat = self._clock.monotonic()

    def report_failure(self, error: StreamError) -> None:
        """Record the error that ended a session or the router."""
        self._failure = error
        self.errors[error.reason] += 1
        self.phase = RouterPhase.FAILED
        self.is_member = False
        self.inputs = ()

    def clear_failure(self) -> None:
        """Forget the failure of the last session."""
        self._failure = None

    def block(self, errors: Sequence[StreamError]) -> None:
        """Record each reason for which partitions of the input wait; none: no one waits.

        A reason counts when it comes, not again while it lasts.
        """
        for reason in {error.reason for error in errors} - {each.reason for each in self._blocked}:
            self.errors[reason] += 1
        self._blocked = errors

    def report_client_error(self, error: StreamError) -> None:
        """Record that the client cannot reach Kafka, or is refused; it retries itself."""
        if self._client_error is None:
            self.errors[error.reason] += 1
        # "All brokers are down" follows the cause, which is more specific.
        if not isinstance(self._client_error, NotAuthorized):
            self._client_error = error

    def clear_client_error(self) -> None:
        """Record that Kafka has answered."""
        self._client_error = None

    def warn(self, reason: str, message: str) -> None:
        """Record what is not as wanted although the router runs; "" ends it."""
        if message:
            self.errors[reason] += self.warnings.get(reason) != message
            self.warnings = {**self.warnings, reason: message}
        elif reason in self.warnings:
            self.warnings = {key: text for key, text in self.warnings.items() if key != reason}

    def _message(self, problem: StreamError) -> str:
        """Return the message of a problem, and of all that wait if it is the first one."""
        if self._failure or not self._blocked:
            return str(problem)
        others = [
            str(each) if each.reason == problem.reason else f"{each.reason}: {each}"
            for each in self._blocked[1:]
        ]
        return listed([str(problem), *others])

    def status(self) -> RouterStatus:
        """Return a snapshot of the state."""
        problem, tally = self.problem, self.tally
        return RouterStatus(
            stream=self.stream,
            router=self.router,
            phase=self.phase,
            ready=self.ready,
            reason=problem.reason if problem else None,
            message=self._message(problem) if problem else None,
            warnings=self.warnings,
            started_at=self._started_at,
            uptime_seconds=self._clock.monotonic() - self._started,
            inputs=list(self.inputs),
            epoch=self.epoch,
            output=self.output,
            counts=RouterCounts(
                routed=tally.routed,
                without_id=tally.without_id,
                bytes=tally.bytes,
                transactions=tally.transactions,
                aborted_transactions=tally.aborted_transactions,
                rebalances=tally.rebalances,
            ),
        )
