"""Leader election: only the operator that holds the Lease acts.

The process waits for `Leadership.acquired`; the API client calls `Leadership.check` before every write.
"""

import logging
import time
from collections.abc import Callable
from datetime import datetime
from threading import Event, Thread
from typing import Any, Final

import urllib3
from kubernetes import client
from kubernetes.leaderelection.electionconfig import Config
from kubernetes.leaderelection.leaderelection import LeaderElection
from kubernetes.leaderelection.leaderelectionrecord import LeaderElectionRecord
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from dedupe_operator import metrics
from dedupe_operator.config import OperatorConfig
from dedupe_operator.errors import LostLeadership

# Of the Lease: a leader that has not renewed it by then ends.
_RENEW_DEADLINE_SHARE: Final = 2 / 3
_RETRY_SECONDS: Final = 4
_REQUEST_TIMEOUT: Final = (2.0, 3.0)
# A write that was allowed just before may still be in flight when the Lease ends.
_MARGIN_SECONDS: Final = 3.0
_RELEASE_TRIES: Final = 3

logging.getLogger("leaderelection").setLevel(logging.WARNING)  # it logs every renewal
log = logging.getLogger(__name__)


class _BoundedClient(client.ApiClient):
    """A client with timeouts: a silent API server can't hide the Lease's end."""

    def call_api(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 # generated code
        kwargs["_request_timeout"] = _REQUEST_TIMEOUT
        return super().call_api(*args, **kwargs)


class _Lock(LeaseLock):
    """The Lease, with the time of its last renewal. No answer counts as a refusal."""

    def __init__(
        self, config: OperatorConfig, api: client.ApiClient, clock: Callable[[], float]
    ) -> None:
        self.api_instance = client.CoordinationV1Api(api)
        self.name = config.lease_name
        self.namespace = config.lease_namespace
        self.identity = config.identity
        self.seconds = config.lease_seconds
        self._clock = clock
        self.lease_reference: client.V1Lease | None = None
        self.renewed_at = float("-inf")
        self.released = False

    def get(self, name: str, namespace: str) -> tuple[bool, object]:
        try:
            found, record = super().get(name, namespace)  # type: ignore[no-untyped-call] # the library has no types
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return False, client.ApiException(status=0, reason=str(error))
        if found and record.holder_identity not in {None, "", self.identity}:
            self.renewed_at = float("-inf")  # another one may write by now
        return found, record

    def create(self, name: str, namespace: str, election_record: LeaderElectionRecord) -> bool:
        return self._hold(lambda: super(_Lock, self).create(name, namespace, election_record))  # type: ignore[no-untyped-call] # as above

    def update(self, name: str, namespace: str, updated_record: LeaderElectionRecord) -> bool:
        return self._hold(lambda: super(_Lock, self).update(name, namespace, updated_record))  # type: ignore[no-untyped-call] # as above

    def _hold(self, write: Callable[[], bool]) -> bool:
        if self.released:
            return False
        # The Lease counts from before the request: its answer may take long.
        asked_at = self._clock()
        try:
            written = write()
        except (urllib3.exceptions.HTTPError, OSError):
            return False
        if written:
            self.renewed_at = asked_at
        return written

    def release(self) -> None:
        """Release the Lease, so that a stand-by need not wait until it expires."""
        self.released = True
        for _ in range(_RELEASE_TRIES):
            # Read it again: every renewal changes the version, and a write to an older one is refused.
            found, record = self.get(self.name, self.namespace)
            if found and getattr(record, "holder_identity", None) != self.identity:
                return
            if found and self._clear_holder():
                return
        log.warning("the Lease could not be released; it expires in %d s", self.seconds)

    def _clear_holder(self) -> bool:
        unheld = LeaderElectionRecord("", str(self.seconds), *[_now()] * 2)
        try:
            return bool(super().update(self.name, self.namespace, unheld))  # type: ignore[no-untyped-call] # as above
        except (urllib3.exceptions.HTTPError, OSError):
            return False


class _Election(LeaderElection):
    """The library's election, unmoved by steps of the time of day.

    It measures by that: a step forward would have a stand-by take a Lease that is renewed, one back would have it wait
    for as long for a Lease that has expired.
    """

    def __init__(self, config: Config, clock: Callable[[], float]) -> None:
        super().__init__(config)  # type: ignore[no-untyped-call] # the library has no types
        self._clock = clock
        self._ahead = time.time() - clock()

    def try_acquire_or_renew(self) -> bool:
        """Take or renew the Lease, if that is free, expired or held."""
        before, self._ahead = self._ahead, time.time() - self._clock()
        self.observed_time_milliseconds += int((self._ahead - before) * 1000)
        return bool(super().try_acquire_or_renew())  # type: ignore[no-untyped-call] # as above


class Leadership:
    """Takes part in the election from `start` on.

    `lost` is called once, from another thread. `clock` returns seconds and never goes backward.
    """

    def __init__(
        self,
        config: OperatorConfig,
        configuration: client.Configuration,
        lost: Callable[[], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.acquired = Event()
        api = _BoundedClient(configuration)
        self._clock = clock
        self._lock = _Lock(config, api, clock)
        self._lost = lost
        self._election = _Election(
            Config(
                self._lock,
                lease_duration=config.lease_seconds,
                renew_deadline=config.lease_seconds * _RENEW_DEADLINE_SHARE,
                retry_period=_RETRY_SECONDS,
                onstarted_leading=self._won,
                onstopped_leading=self._stopped,
            ),
            clock,
        )
        self._thread = Thread(target=self._run, name="election", daemon=True)

    def start(self) -> None:
        """Begin to take part in the election."""
        self._thread.start()

    def check(self) -> None:
        """Check the Lease before a write.

        Raises LostLeadership if another operator may be the leader.
        """
        age = self._clock() - self._lock.renewed_at
        if self._lock.released or age > self._lock.seconds - _MARGIN_SECONDS:
            since = "" if age == float("inf") else f": last renewed {age:.0f} s ago"
            raise LostLeadership(f"the Lease is not held{since}")

    def release(self) -> None:
        """Release the Lease, after the last write."""
        if self.acquired.is_set():
            self._lock.release()

    def _run(self) -> None:
        try:
            self._election.run()  # type: ignore[no-untyped-call] # as above
        except Exception:
            log.exception("the election failed")
            self._stopped()

    def _won(self) -> None:
        metrics.LEADER.set(1)
        self.acquired.set()

    def _stopped(self) -> None:
        metrics.LEADER.set(0)
        if not self._lock.released:
            self._lost()


def _now() -> str:
    # With a fraction that is not 0: the API server refuses a time without one, and the client leaves 0 out.
    return str(datetime.now().replace(microsecond=1))  # noqa: DTZ005 (the library wants local time)
