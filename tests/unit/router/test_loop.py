"""Turns of the loop: what is sent, what waits, and for what."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event

import pytest
from confluent_kafka import Message

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.status.router import RouterPhase
from dedupe_growth.entries import Listed, Switch
from dedupe_kafka.errors import BrokerUnavailable, NoLeader, NotAuthorized, RecordTooLarge
from dedupe_kafka.offsets import Place
from dedupe_router.errors import Rebalanced
from dedupe_router.loop import Loop
from dedupe_router.output import Batch
from dedupe_router.state import RouterState
from tests.unit.crds.manifests import changed
from tests.unit.router.group import FakeGroup, FakeLog, FakeStarts, adoption_of, reader_of, record
from tests.unit.worker.still_clock import StillClock

A, B = ("raw", 0), ("raw", 1)
START = Switch(epoch=0, partitions=4, inputs={"raw": 10})
NAMED = {"spec.input.topic": "raw", "spec.repartition.partitions": 4}
STREAM = parse_manifest(changed(NAMED), "-")


@dataclass
class FakeOutput:
    """Takes batches, unless a test refuses one."""

    sent: list[Batch] = field(default_factory=list)
    tried: int = 0
    refreshed_after: list[int] = field(default_factory=list)
    refuses: Callable[[Batch], Exception | None] = lambda _: None

    def fence(self, stop: Event) -> None:
        raise NotImplementedError

    def refresh(self) -> None:
        self.refreshed_after.append(len(self.sent))

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
class FakeHeldInputs:
    behind: dict[Place, int] = field(default_factory=dict)

    def check(self, behind: dict[Place, int]) -> None:
        self.behind = behind


@dataclass
class FakeStalls:
    error: Exception | None = None

    def check(self) -> None:
        if self.error:
            raise self.error


@dataclass
class Router:
    """A loop whose surroundings a test controls."""

    group: FakeGroup = field(default_factory=FakeGroup)
    starts: FakeStarts = field(default_factory=FakeStarts)
    output: FakeOutput = field(default_factory=FakeOutput)
    watch: FakeWatch = field(default_factory=FakeWatch)
    held_inputs: FakeHeldInputs = field(default_factory=FakeHeldInputs)
    stalls: FakeStalls = field(default_factory=FakeStalls)
    clock: StillClock = field(default_factory=StillClock)
    log: FakeLog = field(default_factory=lambda: FakeLog(START))
    state: RouterState = field(init=False)

    def __post_init__(self) -> None:
        self.state = RouterState(STREAM, 0, self.clock)
        self.reader = reader_of(self.group, self.starts)
        self.loop = Loop(
            reader=self.reader,
            output=self.output,
            adoption=adoption_of(STREAM.spec, self.log),
            watch=self.watch,  # type: ignore[arg-type] # what the loop uses of it
            held_inputs=self.held_inputs,  # type: ignore[arg-type] # likewise
            stalls=self.stalls,  # type: ignore[arg-type] # likewise
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
    """A router of partitions whose starts are committed."""
    starts = FakeStarts()
    starts.offsets = {A: 0, B: 0}
    return Router(starts=starts)


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
    assert {each.metadata for each in batch.offsets} == {"id-1:0"}
    assert len(batch.partitions) == 2
    assert router.state.status().counts.routed == 2
    assert (router.state.ready, router.state.phase) == (True, RouterPhase.RUNNING)


def test_starts_are_committed_although_there_is_no_record() -> None:
    router = Router()
    router.turn()
    assert [len(batch.records) for batch in router.output.sent] == [0]
    router.turn()
    assert len(router.output.sent) == 1


def test_starts_are_committed_before_the_first_record() -> None:
    """A router that is killed in its first transaction leaves an offset, beside records that are aborted."""
    router = Router()
    router.turn(record(offset=3), record(offset=4))
    (first,) = router.output.sent
    assert [(each.partition, each.offset) for each in first.offsets] == [(0, 0), (1, 0)]
    assert not first.records
    router.turn()
    assert router.output.records == [(0, 3), (0, 4)]


def test_a_batch_of_an_old_generation_is_sent_again_by_its_owner(router: Router) -> None:
    router.output.refuses = lambda _: Rebalanced("another generation")
    router.turn(record(offset=0), record(partition=1, offset=0))
    assert router.state.tally.aborted_transactions == 1
    router.loop.turn()
    assert router.output.tried == 1, "not again and again while the group changes"
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


def test_each_partition_that_waits_is_named_with_its_reason(router: Router) -> None:
    router.output.refuses = too_large(A, 0)
    router.turn(record(offset=0), record(partition=1, offset=0))
    router.reader.lose(B, NoLeader("raw/1 has no leader"))
    router.starts.held_by = {B: NoLeader("raw/1 has no leader")}
    for _ in range(3):
        router.turn()
    status = router.state.status()
    assert status.reason == "RecordTooLarge"
    assert status.message == ("record raw/0 at offset 0: too large; NoLeader: raw/1 has no leader")
    assert router.state.errors == {"RecordTooLarge": 1, "NoLeader": 1}


def test_many_that_wait_are_counted(router: Router) -> None:
    places = [("raw", number) for number in range(2, 10)]
    router.starts.held_by = {at: NoLeader(f"{at[0]}/{at[1]} has no leader") for at in places}
    router.group.give(*places)
    router.turn()
    status = router.state.status()
    assert status.reason == "NoLeader"
    assert (status.message or "").endswith("; raw/6 has no leader; and 3 more")


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


def epochs_sent(router: Router) -> list[tuple[str, int, int, str | None]]:
    """Return what the last batch commits."""
    return [(o.topic, o.partition, o.offset, o.metadata) for o in router.output.sent[-1].offsets]


def test_a_new_epoch_is_adopted_with_the_next_batch_and_for_partitions_without_records(
    router: Router,
) -> None:
    router.turn(record(offset=0, key=b"k"))
    router.log.entries.append(Switch(epoch=1, partitions=6, inputs={"raw": 10}))
    assert router.output.refreshed_after == []
    router.loop.turn()
    assert router.output.refreshed_after == [1], "before a record goes to a new partition"
    assert epochs_sent(router) == [("raw", 0, 1, "id-1:1"), ("raw", 1, 0, "id-1:1")]
    sent = len(router.output.sent)
    router.turn()
    assert len(router.output.sent) == sent  # once is enough
    router.turn(*(record(offset=1 + n, key=b"%d" % n) for n in range(50)))
    assert max(router.output.sent[-1].partitions) > 3


def test_a_partition_that_the_log_does_not_list_waits_with_its_records() -> None:
    router = Router(log=FakeLog(Switch(epoch=0, partitions=4, inputs={"raw": 1})))
    router.turn(record(offset=0, key=b"k"), record(partition=1, offset=0, key=b"l"))
    router.turn()  # after the starts
    assert router.output.records == [(0, 0)]
    assert [place for place in router.group.paused if place == B]
    assert "raw/1 is new" in router.state.warnings["InputWaitsForEpoch"]
    router.log.entries.append(Listed(epoch=0, inputs={"raw": 2}))
    router.turn()
    assert router.output.records == [(0, 0), (1, 0)]
    assert not router.group.paused
    assert not router.state.warnings


def test_what_a_newer_epoch_has_routed_waits_until_the_log_shows_that_epoch() -> None:
    starts = FakeStarts()
    starts.offsets, starts.epochs = {A: 5, B: 5}, {A: 1}
    router = Router(starts=starts)
    router.turn(record(offset=5, key=b"k"), record(partition=1, offset=5, key=b"l"))
    assert router.output.records == [(1, 5)]
    router.log.entries.append(Switch(epoch=1, partitions=6, inputs={"raw": 10}))
    router.turn()
    assert router.output.records == [(1, 5), (0, 5)]
    assert [o for o in epochs_sent(router) if o[1] == 0] == [("raw", 0, 6, "id-1:1")]


def test_a_waiting_partition_that_went_and_came_back_is_read_anew() -> None:
    router = Router(log=FakeLog(Switch(epoch=0, partitions=4, inputs={"raw": 1})))
    router.turn(record(partition=1, offset=0, key=b"l"))
    router.turn(lambda: router.group.take(B), lambda: router.group.give(B))
    router.log.entries.append(Listed(epoch=0, inputs={"raw": 2}))
    router.turn(record(partition=1, offset=0, key=b"l"))
    assert router.output.records.count((1, 0)) == 1


def test_a_router_that_waits_in_one_call_for_long_is_not_ready(router: Router) -> None:
    router.turn()
    assert router.state.ready
    router.clock.sleep(31.0)
    status = router.state.status()
    assert (status.ready, status.phase) == (False, RouterPhase.RUNNING)
    assert status.reason == "BrokerUnavailable"
    assert "has not answered" in (status.message or "")
    router.turn()
    assert router.state.ready


def test_bytes_are_those_of_keys_values_and_headers(router: Router) -> None:
    """The watch estimates from them how much the repartition topic holds."""
    headers = [("h", b"12345"), ("header", b"")]
    router.turn(*(record(offset=n, key=b"key", value=b"12", headers=headers) for n in range(3)))
    assert router.state.tally.bytes == 3 * (3 + 2 + 6 + 6)


def test_a_former_input_that_kafka_holds_back_is_named_and_the_router_is_ready() -> None:
    starts = FakeStarts()
    starts.offsets, starts.former = {A: 0, B: 0}, {B}
    starts.held_by = {B: NotAuthorized("raw/1: no READ")}
    router = Router(starts=starts)
    router.reader.clock = router.clock
    router.turn(record(offset=0))
    assert router.output.records == [(0, 0)]
    assert router.state.ready
    assert "raw/1: no READ: spec.input" in router.state.warnings["FormerInputHeld"]
    starts.held_by = {}
    router.clock.sleep(20)
    router.turn()
    router.turn()
    assert router.state.warnings == {}
