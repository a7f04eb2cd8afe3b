"""Turns of the loop: what is sent, what waits, and for what."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event

import pytest
from confluent_kafka import Message

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_crds.status.router import RouterPhase
from dedupe_kafka.errors import BrokerUnavailable, RecordTooLarge
from dedupe_router.errors import Rebalanced
from dedupe_router.loop import Loop
from dedupe_router.output import Batch
from dedupe_router.route import Route
from dedupe_router.state import RouterState
from tests.unit.crds.manifests import changed
from tests.unit.router.group import FakeGroup, FakeStarts, reader_of, record
from tests.unit.worker.still_clock import StillClock

A, B = ("raw", 0), ("raw", 1)
STREAM = parse_manifest(changed({"spec.repartition.partitions": 4}), "-")


@dataclass
class FakeOutput:
    """Takes batches, unless a test refuses one."""

    sent: list[Batch] = field(default_factory=list)
    tried: int = 0
    refuses: Callable[[Batch], Exception | None] = lambda _: None

    def fence(self, stop: Event) -> None:
        raise NotImplementedError

    def send(self, batch: Batch, membership: bytes) -> None:
        assert membership.startswith(b"metadata of m-")
        self.tried += 1
        if error := self.refuses(batch):
            raise error
        self.sent.append(batch)

    @property
    def records(self) -> list[tuple[int | None, int | None]]:
        return [(r.partition(), r.offset()) for batch in self.sent for r in batch.records]


@dataclass
class FakeWatch:
    topics: Sequence[str] = ("raw",)
    full: str = ""

    def check_if_due(self) -> None:
        """See what the test has set."""


@dataclass
class Router:
    """A loop whose surroundings a test controls."""

    group: FakeGroup = field(default_factory=FakeGroup)
    starts: FakeStarts = field(default_factory=FakeStarts)
    output: FakeOutput = field(default_factory=FakeOutput)
    watch: FakeWatch = field(default_factory=FakeWatch)
    clock: StillClock = field(default_factory=StillClock)
    state: RouterState = field(init=False)

    def __post_init__(self) -> None:
        self.state = RouterState(STREAM, 0, self.clock)
        self.reader = reader_of(self.group, self.starts)
        self.loop = Loop(
            reader=self.reader,
            output=self.output,
            route=Route(STREAM.spec, RepartitionBy.ID, 4),
            watch=self.watch,  # type: ignore[arg-type] # what the loop uses of it
            state=self.state,
            clock=self.clock,
            most=100,
        )
        self.group.give(A, B)

    def turn(self, *arrives: Message | Callable[[], None]) -> None:
        self.group.arrives += arrives
        self.clock.sleep(2.0)
        self.loop.turn()


@pytest.fixture
def router() -> Router:
    return Router()


def too_large(at: tuple[str, int], offset: int) -> Callable[[Batch], Exception | None]:
    """Refuse batches with this record."""

    def refuse(batch: Batch) -> Exception | None:
        found = [(r.topic(), r.partition(), r.offset()) for r in batch.records]
        return RecordTooLarge("too large") if (*at, offset) in found else None

    return refuse


def test_a_batch_goes_with_the_offsets_after_it(router: Router) -> None:
    router.turn(record(offset=0, key=b"k"), record(partition=1, offset=0, key=b"l"))
    (batch,) = router.output.sent
    assert [(each.topic, each.partition, each.offset) for each in batch.offsets] == [
        ("raw", 0, 1),
        ("raw", 1, 1),
    ]
    assert {each.metadata for each in batch.offsets} == {"id-1"}
    assert len(batch.partitions) == 2
    assert router.state.status().counts.routed == 2
    assert (router.state.ready, router.state.phase) == (True, RouterPhase.RUNNING)


def test_starts_are_committed_although_there_is_no_record(router: Router) -> None:
    router.turn()
    assert [len(batch.records) for batch in router.output.sent] == [0]
    router.turn()
    assert len(router.output.sent) == 1


def test_a_batch_of_an_old_generation_is_sent_again_by_its_owner(router: Router) -> None:
    router.output.refuses = lambda _: Rebalanced("another generation")
    router.turn(record(offset=0), record(partition=1, offset=0))
    assert router.state.tally.aborted_transactions == 1
    router.output.refuses = lambda _: None
    router.turn(lambda: router.group.take(A))
    assert router.output.records == [(1, 0)]


def test_nothing_is_sent_without_a_membership(router: Router) -> None:
    router.group.member = None
    router.turn(record(offset=0))
    assert router.output.tried == 0
    assert not router.state.ready
    router.group.member = "m-2"
    router.turn()
    assert router.output.records == [(0, 0)]


def test_another_failure_ends_the_session(router: Router) -> None:
    router.output.refuses = lambda _: BrokerUnavailable("no answer")
    with pytest.raises(BrokerUnavailable):
        router.turn(record(offset=0))


def test_a_refused_record_stops_its_partition_alone(router: Router) -> None:
    router.output.refuses = too_large(A, 5)
    records = [record(partition=n % 2, offset=n // 2) for n in range(20)]
    router.turn(*records)
    for _ in range(20):
        router.turn()
    sent = router.output.records
    assert [offset for partition, offset in sent if partition == 0] == list(range(5))
    assert [offset for partition, offset in sent if partition == 1] == list(range(10))
    assert router.group.paused == {A}
    status = router.state.status()
    assert (status.ready, status.reason) == (False, "RecordTooLarge")
    assert "record raw/0 at offset 5" in (status.message or "")


def test_a_refused_record_is_tried_again_and_its_partition_goes_on(router: Router) -> None:
    router.output.refuses = too_large(A, 0)
    router.turn(record(offset=0), record(offset=1))
    for _ in range(3):
        router.turn()
    assert router.output.records == []
    tried = router.output.tried
    router.output.refuses = lambda _: None
    router.turn()
    assert router.output.tried == tried  # it is not due yet
    for _ in range(10):
        router.turn()
    assert router.output.records == [(0, 0), (0, 1)]
    assert router.group.paused == set()
    assert router.state.ready


def test_a_full_repartition_topic_pauses_by_name(router: Router) -> None:
    router.watch.full = "it holds 1Gi"
    router.turn()
    assert router.group.paused == {A, B}
    status = router.state.status()
    assert (status.phase, status.reason) == (RouterPhase.PAUSED, "RepartitionTopicFull")
    router.watch.full = ""
    router.turn()
    assert (router.group.paused, router.state.ready) == (set(), True)


def test_a_session_at_rest_ends_the_failure_of_the_one_before(router: Router) -> None:
    router.turn()
    router.state.report_failure(BrokerUnavailable("no answer"))
    router.turn()
    assert router.state.ready


def test_a_failure_stays_until_what_failed_is_committed(router: Router) -> None:
    router.turn()
    router.state.report_failure(BrokerUnavailable("no answer"))
    router.output.refuses = lambda _: Rebalanced("another generation")
    router.turn(record(offset=0))
    assert not router.state.ready
    router.output.refuses = lambda _: None
    router.turn()
    assert router.state.ready


def test_it_subscribes_to_what_the_watch_finds(router: Router) -> None:
    router.watch.topics = ("more", "raw")
    router.turn()
    assert router.group.subscribed == ["more", "raw"]
    router.watch.topics = ()
    router.turn()
    assert router.group.subscribed == []
