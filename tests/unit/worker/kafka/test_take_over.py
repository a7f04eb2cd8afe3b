"""A fenced worker: is there a newer one, or did Kafka end the transaction?"""

from collections.abc import Callable
from threading import Event

import pytest

from dedupe_kafka.errors import Fenced, TransactionExpired
from dedupe_kafka.offset_metadata import split_token
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.kafka.take_over import TakeOver
from tests.unit.worker.still_clock import StillClock

FENCED = Fenced("producing of clean/0: fenced")


class Group:
    """The committed offset of the group; `later` is called at each look."""

    def __init__(self, metadata: str | None = None) -> None:
        self.metadata = metadata
        self.looks = 0
        self.later: Callable[[], None] = lambda: None

    def committed(self) -> Committed | None:
        self.looks += 1
        self.later()
        if self.metadata is None:
            return None
        text, token = split_token(self.metadata)
        return Committed(7, text, token)

    def taken_over_by(self, worker: TakeOver) -> None:
        worker.begin(self.committed())
        self.metadata = worker.add_token("")


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def group() -> Group:
    return Group()


@pytest.fixture
def worker(clock: StillClock, group: Group) -> TakeOver:
    worker = TakeOver(clock)
    group.taken_over_by(worker)
    return worker


def explained(worker: TakeOver, group: Group, *, expired: bool) -> type[Exception]:
    return type(worker.explain(FENCED, group, expired=expired, stop=Event()))


def test_an_expired_transaction_is_no_newer_worker(worker: TakeOver, group: Group) -> None:
    assert explained(worker, group, expired=True) is TransactionExpired


def test_a_newer_worker_is_one_also_when_the_transaction_is_old(
    worker: TakeOver, group: Group, clock: StillClock
) -> None:
    group.taken_over_by(TakeOver(clock))
    assert explained(worker, group, expired=True) is Fenced
    with pytest.raises(Fenced, match="newer worker"):
        worker.check(group.committed())


def test_a_newer_worker_gets_time_to_record_its_take_over(
    worker: TakeOver, group: Group, clock: StillClock
) -> None:
    newer = TakeOver(clock)

    def at_the_fourth_look() -> None:
        if group.looks == looks + 4:
            group.metadata = "@2-1234"

    looks = group.looks
    group.later = at_the_fourth_look
    assert explained(worker, group, expired=False) is Fenced
    assert not newer.recorded_before


def test_a_transaction_that_a_tool_has_aborted_is_no_newer_worker(
    worker: TakeOver, group: Group, clock: StillClock
) -> None:
    began = clock.monotonic()
    assert explained(worker, group, expired=False) is TransactionExpired
    assert clock.monotonic() - began < 30, "the watchdog has no reason to bark"


def test_an_offset_without_a_token_was_committed_by_another_worker_of_an_earlier_release(
    worker: TakeOver, group: Group
) -> None:
    group.metadata = ""
    assert explained(worker, group, expired=True) is Fenced
    worker.check(group.committed())  # or by a user between two sessions, who may


def test_a_worker_knows_the_take_overs_of_all_its_sessions(worker: TakeOver, group: Group) -> None:
    before = group.metadata
    group.taken_over_by(worker)
    assert group.metadata != before
    for metadata in (before, group.metadata):  # the commit of the second may have failed
        group.metadata = metadata
        worker.check(group.committed())
        assert explained(worker, group, expired=True) is TransactionExpired


@pytest.mark.parametrize("expired", [False, True])
def test_a_take_over_that_failed_leaves_the_token_of_the_older_worker(
    worker: TakeOver, group: Group, clock: StillClock, *, expired: bool
) -> None:
    newer = TakeOver(clock)
    newer.begin(group.committed())  # and its commit fails
    newer.check(group.committed())
    assert explained(newer, group, expired=expired) is TransactionExpired
    clock.sleep(1)
    group.taken_over_by(worker)
    with pytest.raises(Fenced):
        newer.check(group.committed())


def test_a_process_that_has_just_started_takes_over_from_any_other(
    worker: TakeOver, group: Group, clock: StillClock
) -> None:
    TakeOver(clock).check(group.committed())
    assert worker.recorded_before


def test_two_workers_do_not_take_turns(clock: StillClock, group: Group) -> None:
    """Each meets the other at the worst moment, and after two rounds one has ended."""
    older, newer = TakeOver(clock), TakeOver(clock)
    group.taken_over_by(older)
    # The newer one has fenced the older one, and not recorded it yet: the older one takes over again.
    assert explained(older, group, expired=True) is TransactionExpired
    older.check(group.committed())
    group.taken_over_by(older)
    # The newer one was fenced while it took over, so it has recorded nothing and tries again.
    newer.check(group.committed())
    group.taken_over_by(newer)
    assert explained(older, group, expired=False) is Fenced


def test_numbers_count_the_take_overs_and_survive_lost_offsets(
    clock: StillClock, group: Group
) -> None:
    tokens = []
    for _ in range(3):
        group.taken_over_by(TakeOver(clock))
        tokens.append(group.metadata)
        clock.sleep(1)
    assert tokens == ["@1-1000000", "@2-1001000", "@3-1002000"]
    group.metadata = None
    group.taken_over_by(TakeOver(clock))
    assert group.metadata == "@1-1003000"


def test_metadata_of_others_is_left_as_it_is() -> None:
    for metadata in (None, "", "Ab1:7", "someone@example", "a@b@"):
        assert split_token(metadata) == (metadata, None)
    assert split_token("a@b@12-3") == ("a@b", "12-3")
