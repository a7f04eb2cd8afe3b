"""Tell a newer worker from a transaction that Kafka has ended.

docs/decisions/0026 has the reasons. Kafka answers both alike: the producer is fenced. So each take-over is recorded
with the committed input offset, in the transaction that commits it:

    <metadata>@<number>-<Unix milliseconds>

The number is one more than that of the take-over before, and the time keeps numbers apart whose predecessor was lost
with the group's offsets. A worker that is fenced, or begins another session, reads the committed token: if it is not
its own, another worker has taken over. Releases before this one write no token, and ignore it.
"""

from threading import Event
from typing import Final, Protocol

from dedupe_crds.clock import Clock
from dedupe_kafka.errors import Fenced, StreamError, TransactionExpired
from dedupe_kafka.offset_metadata import with_token

# A newer worker that has fenced this one commits its token within this time. It needs some requests.
_RECORDED_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.2


class _Committed(Protocol):
    @property
    def take_over(self) -> str | None: ...


class OffsetReader(Protocol):
    """The part of `PartitionReader` that shows who has committed last."""

    def committed(self) -> _Committed | None: ...  # noqa: D102


class TakeOver:
    """The take-overs of one process, over all of its sessions."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._token: str | None = None
        self._own: set[str] = set()
        self._before: str | None = None
        self.is_open = False
        """A transaction of this process has begun, and is not known to have ended."""

    @property
    def recorded_before(self) -> bool:
        """Return whether this process has tried to record a take-over before."""
        return bool(self._own)

    def check(self, committed: _Committed | None) -> None:
        """Raise Fenced if another worker has taken over since the last session.

        An offset without a token does not count: a user may have set it.
        """
        if self._own and committed and committed.take_over not in {None, *self._known}:
            raise _newer_worker()

    def begin(self, committed: _Committed | None) -> None:
        """Begin a take-over, after the one that has committed this."""
        self._before = committed.take_over if committed else None
        number = (self._before or "0").partition("-")[0]
        self._token = f"{int(number) + 1}-{self._clock.time_ms()}"
        self._own.add(self._token)

    def add_token(self, metadata: str) -> str:
        """Return the metadata for an offset commit with this session's token."""
        return metadata if self._token is None else with_token(metadata, self._token)

    def explain(
        self, error: Fenced, reader: OffsetReader, *, expired: bool, stop: Event
    ) -> StreamError:
        """Return Fenced if there is a newer worker, else TransactionExpired.

        `expired`: the transaction was old enough for Kafka to end it. If it was not, a newer worker is likely, and
        gets time to record its take-over. Raises the errors of the reader.
        """
        deadline = self._clock.deadline(_RECORDED_SECONDS, stop)
        while True:
            committed = reader.committed()
            if committed and committed.take_over not in self._known:
                return _newer_worker()
            if expired or not deadline.pause(_POLL_SECONDS):
                break
        cause = (
            "the transaction outlived its time-out (was the machine suspended, or the coordinator away?)"
            if expired
            else "a user or a tool aborted the transaction"
        )
        return TransactionExpired(
            f"{cause}, and no newer worker has committed; starting again: {error}"
        )

    @property
    def _known(self) -> set[str]:
        """Return the tokens that are of no newer worker.

        Until this one is recorded, that of the worker before stands.
        """
        return self._own | ({self._before} if self._before else set())


def _newer_worker() -> Fenced:
    return Fenced("a newer worker of this partition has taken over; this worker exits")
