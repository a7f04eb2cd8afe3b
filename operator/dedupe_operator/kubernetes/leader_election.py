"""One operator acts at a time: the one that holds the Lease."""

import logging
import time
from collections.abc import Callable
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

LEASE_SECONDS: Final = 15
_RENEW_DEADLINE_SECONDS: Final = 10
_RETRY_SECONDS: Final = 4
_REQUEST_TIMEOUT: Final = (2.0, 3.0)
# A write that was let through a moment ago is still on its way when the Lease ends.
_MARGIN_SECONDS: Final = 3.0
_RELEASE_TRIES: Final = 3

logging.getLogger("leaderelection").setLevel(logging.WARNING)  # it tells of every renewal
log = logging.getLogger(__name__)


class _BoundedClient(client.ApiClient):
    """Every request ends in time, so that a silent API server can't hide the end of the Lease."""

    def call_api(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 # generated code's
        kwargs["_request_timeout"] = _REQUEST_TIMEOUT
        return super().call_api(*args, **kwargs)


class _Lock(LeaseLock):
    """The Lease, with the time it was last ours, and no answer as a refusal."""

    def __init__(self, name: str, namespace: str, identity: str, api: client.ApiClient) -> None:
        self.api_instance = client.CoordinationV1Api(api)
        self.name = name
        self.namespace = namespace
        self.identity = identity
        self.lease_reference: client.V1Lease | None = None
        self.renewed_at = float("-inf")
        self.released = False

    def get(self, name: str, namespace: str) -> tuple[bool, object]:
        try:
            return super().get(name, namespace)  # type: ignore[no-any-return, no-untyped-call] # the library has no types
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return False, client.ApiException(status=0, reason=str(error))

    def create(self, name: str, namespace: str, election_record: LeaderElectionRecord) -> bool:
        return self._hold(lambda: super(_Lock, self).create(name, namespace, election_record))  # type: ignore[no-untyped-call] # as above

    def update(self, name: str, namespace: str, updated_record: LeaderElectionRecord) -> bool:
        return self._hold(lambda: super(_Lock, self).update(name, namespace, updated_record))  # type: ignore[no-untyped-call] # as above

    def _hold(self, write: Callable[[], bool]) -> bool:
        if self.released:
            return False
        # The Lease counts from before the request: its answer may take long.
        asked_at = time.monotonic()
        try:
            written = write()
        except (urllib3.exceptions.HTTPError, OSError):
            return False
        if written:
            self.renewed_at = asked_at
        return written

    def release(self) -> None:
        """Let the next one have it at once, rather than when it has run out."""
        self.released = True
        for _ in range(_RELEASE_TRIES):
            # Read anew: every renewal makes another version, and a write on an older one is refused.
            found, record = self.get(self.name, self.namespace)
            if found and getattr(record, "holder_identity", None) != self.identity:
                return
            if found and self._give_back():
                return
        log.warning("the Lease was not given back, and runs out by itself")

    def _give_back(self) -> bool:
        nobody = LeaderElectionRecord("", str(LEASE_SECONDS), *[_now()] * 2)
        try:
            return bool(super().update(self.name, self.namespace, nobody))  # type: ignore[no-untyped-call] # as above
        except (urllib3.exceptions.HTTPError, OSError):
            return False


class Leadership:
    """Takes part in the election from `start` on. `lost` is called once, from another thread."""

    def __init__(
        self, config: OperatorConfig, configuration: client.Configuration, lost: Callable[[], None]
    ) -> None:
        self.acquired = Event()
        api = _BoundedClient(configuration)
        self._lock = _Lock(config.lease_name, config.lease_namespace, config.identity, api)
        self._lost = lost
        self._election = LeaderElection(
            Config(
                self._lock,
                lease_duration=LEASE_SECONDS,
                renew_deadline=_RENEW_DEADLINE_SECONDS,
                retry_period=_RETRY_SECONDS,
                onstarted_leading=self._won,
                onstopped_leading=self._stopped,
            )
        )
        self._thread = Thread(target=self._run, name="election", daemon=True)

    def start(self) -> None:
        """Take part."""
        self._thread.start()

    def check(self) -> None:
        """Call ahead of every write. Raises LostLeadership when another one may have taken over."""
        age = time.monotonic() - self._lock.renewed_at
        if self._lock.released or age > LEASE_SECONDS - _MARGIN_SECONDS:
            raise LostLeadership(f"the Lease was last renewed {age:.0f} s ago")

    def release(self) -> None:
        """Give the Lease back, after the last write."""
        if self.acquired.is_set():
            self._lock.release()

    def _run(self) -> None:
        try:
            self._election.run()
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
    return time.strftime("%Y-%m-%d %H:%M:%S")
