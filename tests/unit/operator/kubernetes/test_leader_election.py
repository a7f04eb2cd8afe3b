"""The Lease, against a small API server that keeps one."""

import re
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from threading import Event, Lock
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client
from kubernetes.leaderelection.electionconfig import Config
from kubernetes.leaderelection.leaderelectionrecord import LeaderElectionRecord

from dedupe_operator.config import OperatorConfig
from dedupe_operator.errors import LostLeadership
from dedupe_operator.kubernetes import leader_election as module
from dedupe_operator.kubernetes.leader_election import Leadership
from tests.support.patience import HANG_SECONDS, pace
from tests.unit.operator.inline import FakeClock
from tests.unit.operator.json_server import Request, serving
from tests.unit.operator.objects import RELEASE
from tests.unit.operator.waits import until

PATH = "/apis/coordination.k8s.io/v1/namespaces/system/leases"
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")
Enter = Callable[..., "Candidate"]


class FakeLeases:
    """Keeps the Lease as the API server does.

    A write on an older version is a conflict, and a time without microseconds is refused.
    """

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.away = False
        self.slow_seconds = 0.0
        self.asked_at = float("-inf")  # of the last write that was kept
        self._lock = Lock()
        self._version = 0

    @property
    def holder(self) -> str | None:
        lease = self.lease or {"spec": {}}
        holder: str | None = lease["spec"].get("holderIdentity")
        return holder

    def __call__(self, request: Request) -> tuple[int, object]:
        assert request.path.startswith(PATH)
        asked_at = time.monotonic()
        pace(self.slow_seconds)
        with self._lock:
            if self.away:
                return _refused(500)
            if request.method == "GET":
                return (200, self.lease) if self.lease else _refused(404)
            if request.method == "POST" and self.lease is not None:
                return _refused(409)
            if request.method == "PUT":
                sent = request.body["metadata"].get("resourceVersion")
                if self.lease is None or sent != self.lease["metadata"]["resourceVersion"]:
                    return _refused(409)
            spec = request.body["spec"]
            if not all(MICRO_TIME.fullmatch(spec[name]) for name in ("acquireTime", "renewTime")):
                return _refused(400)
            self.asked_at = asked_at
            return self._keep(request.body)

    def usurp(self) -> None:
        """Another one takes the Lease, whoever is about to write it."""
        with self._lock:
            assert self.lease is not None
            taken = deepcopy(self.lease)
            taken["spec"]["holderIdentity"] = "usurper"
            self._keep(taken)

    def writes(self) -> int:
        """How often it was written."""
        return self._version

    def _keep(self, lease: dict[str, Any]) -> tuple[int, object]:
        self._version += 1
        self.lease = deepcopy(lease)
        self.lease["metadata"]["resourceVersion"] = str(self._version)
        return 200, self.lease


def _refused(status: int) -> tuple[int, object]:
    return status, {"kind": "Status", "code": status, "message": "refused"}


class Candidate(Leadership):
    """A replica, with what it is told."""

    def __init__(self, config: OperatorConfig, configuration: client.Configuration) -> None:
        self.ended = Event()
        super().__init__(config, configuration, self.ended.set)
        self._election.election_config.retry_period = 0.1  # below what the library takes
        self.tries = 0
        try_once = self._election.try_acquire_or_renew

        def counted() -> bool:
            try:
                return try_once()
            finally:
                self.tries += 1

        self._election.try_acquire_or_renew = counted  # type: ignore[method-assign] # to count them

    def leave(self) -> None:
        """End the election's thread, which has no end of its own."""

        def fail() -> bool:
            raise AssertionError("the test is over")

        self._election.try_acquire_or_renew = fail  # type: ignore[method-assign] # nothing else ends it
        self._thread.join(HANG_SECONDS)

    @property
    def out(self) -> bool:
        """It takes part in no election any more."""
        return not self._thread.is_alive()

    def leads(self) -> bool:
        try:
            self.check()
        except LostLeadership:
            return False
        return True


@pytest.fixture
def leases(monkeypatch: pytest.MonkeyPatch) -> FakeLeases:
    for name, seconds in (
        ("_RETRY_SECONDS", 1),
        ("_MARGIN_SECONDS", 1.0),
        ("_REQUEST_TIMEOUT", (HANG_SECONDS, HANG_SECONDS)),
    ):
        monkeypatch.setattr(module, name, seconds)
    return FakeLeases()


@pytest.fixture
def enter(leases: FakeLeases) -> Iterator[Enter]:
    candidates: list[Candidate] = []
    with serving(leases) as address:
        configuration = client.Configuration(host=address)
        configuration.retries = False

        # A Lease that does not run out while a test lasts, however slow the machine is.
        def make(identity: str, lease_seconds: int = 120) -> Candidate:
            config = OperatorConfig(
                release=RELEASE,
                namespaces=(),
                http_host="127.0.0.1",
                http_port=0,
                max_nodes_not_ready_percent=50,
                lease_namespace="system",
                lease_name="dedupestream-operator",
                identity=identity,
                lease_seconds=lease_seconds,
            )
            candidates.append(Candidate(config, configuration))
            candidates[-1].start()
            return candidates[-1]

        yield make
        for candidate in candidates:
            candidate.leave()


def test_one_candidate_leads_and_renews(enter: Enter, leases: FakeLeases) -> None:
    first = enter("first")
    assert first.acquired.wait(HANG_SECONDS)
    until(lambda: leases.writes() >= 10 or not first.leads())
    assert first.leads()
    assert leases.holder == "first"
    assert not first.ended.is_set()


def test_a_second_candidate_stands_by(enter: Enter, leases: FakeLeases) -> None:
    first = enter("first")
    assert first.acquired.wait(HANG_SECONDS)
    second = enter("second")
    until(lambda: second.tries >= 10)
    assert not second.acquired.is_set()
    assert not second.leads()
    assert first.leads()
    assert leases.holder == "first"


def test_of_two_that_enter_at_once_one_leads(enter: Enter) -> None:
    candidates = [enter("first"), enter("second")]

    def tried() -> bool:
        assert sum(one.leads() for one in candidates) <= 1
        return all(one.tries >= 10 for one in candidates)

    until(tried)
    assert sum(one.leads() for one in candidates) == 1


def test_a_lease_that_is_given_back_is_taken_at_once(enter: Enter, leases: FakeLeases) -> None:
    first = enter("first")
    assert first.acquired.wait(HANG_SECONDS)
    second = enter("second")
    until(
        lambda: leases.writes() >= 5
    )  # renewals, each of which makes another version of the Lease
    first.release()
    assert leases.holder != "first"
    assert not first.leads()
    assert second.acquired.wait(HANG_SECONDS)  # a tenth of the time it would run for
    assert second.leads()
    tried = first.tries
    until(lambda: first.tries > tried + 3)
    assert leases.holder == "second"
    assert not first.ended.is_set()


def test_who_gave_the_lease_back_does_not_take_it_again_and_is_not_told_of_a_loss(
    enter: Enter, leases: FakeLeases
) -> None:
    first = enter("first", lease_seconds=2)
    assert first.acquired.wait(HANG_SECONDS)
    first.release()
    until(lambda: first.out)
    assert leases.holder != "first"
    assert not first.ended.is_set()


def test_a_lease_that_is_anothers_by_now_is_not_given_back(
    enter: Enter, leases: FakeLeases
) -> None:
    first = enter("first")
    assert first.acquired.wait(HANG_SECONDS)
    leases.usurp()
    first.release()
    assert leases.holder == "usurper"


def test_a_leader_that_finds_another_holder_may_not_write_any_more(
    enter: Enter, leases: FakeLeases
) -> None:
    first = enter("first")
    until(first.leads)
    leases.usurp()
    until(lambda: not first.leads())
    assert leases.holder == "usurper"


@pytest.mark.parametrize("slow_seconds", [0.0, 0.7])
def test_a_leader_that_cant_renew_may_not_write_any_more_and_is_told(
    enter: Enter, leases: FakeLeases, slow_seconds: float
) -> None:
    leases.slow_seconds = slow_seconds
    first = enter("first", lease_seconds=2)
    assert first.acquired.wait(HANG_SECONDS)
    leases.away = True
    leads = True
    while leads:
        looked_at, leads = time.monotonic(), first.leads()
        # The Lease without the margin, from before the request that renewed it.
        assert not leads or looked_at - leases.asked_at <= 1.0
        pace(0.01)
    assert first.ended.wait(HANG_SECONDS)
    with pytest.raises(LostLeadership, match=r"last renewed \d+ s ago"):
        first.check()


@pytest.mark.parametrize("step", [3600.0, -3600.0])
def test_a_step_of_the_time_of_day_neither_takes_a_lease_nor_leaves_it(
    step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, ahead = FakeClock(), 1e9
    fake = SimpleNamespace(time=lambda: clock() + ahead)
    monkeypatch.setattr(module, "time", fake)
    monkeypatch.setattr("kubernetes.leaderelection.leaderelection.time", fake)
    record = LeaderElectionRecord("another", "15", "then", "then")
    lock = SimpleNamespace(
        name="lease",
        namespace="system",
        identity="me",
        get=lambda *_: (True, record),
        update=lambda *_: True,
    )
    config = Config(lock, 15, 10, 4, onstarted_leading=lambda: None, onstopped_leading=None)
    election = module._Election(config, clock)  # noqa: SLF001 # its clock is set
    assert not election.try_acquire_or_renew()
    ahead += step
    clock.now += 14
    assert not election.try_acquire_or_renew()
    clock.now += 2
    assert election.try_acquire_or_renew()


def test_a_candidate_waits_for_an_api_server_that_is_away(enter: Enter, leases: FakeLeases) -> None:
    leases.away = True
    first = enter("first")
    until(lambda: first.tries >= 3)
    assert not first.acquired.is_set()
    leases.away = False
    assert first.acquired.wait(HANG_SECONDS)


def test_a_candidate_that_never_led_gives_nothing_back(enter: Enter, leases: FakeLeases) -> None:
    assert enter("first").acquired.wait(HANG_SECONDS)
    enter("second").release()
    assert leases.holder == "first"
