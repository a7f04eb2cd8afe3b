"""A partition that a growth has added learns ids from the outputs of older ones, into a real store."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_crds.status.worker import Phase
from dedupe_growth.entries import Cuts, Done, Entry, EpochLogUnreadable, Prepare, Switch
from dedupe_growth.epochs import Epochs, epochs_of
from dedupe_ids.extract import extractor_for, pack_id
from dedupe_ids.route import Route
from dedupe_kafka.errors import BrokerUnavailable
from dedupe_kafka.fetch_progress import FetchProgress
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.dedup.window import Window
from dedupe_worker.kafka.output_reader import Hidden, OutputReader
from dedupe_worker.recovery import learning as module
from dedupe_worker.recovery.input_offset import InputStart
from dedupe_worker.recovery.learning import Learning
from dedupe_worker.status import WorkerState
from dedupe_worker.store.rocksdb import Store
from dedupe_worker.values import ValueLayout, timestamp_of
from tests.unit.crds.manifests import changed
from tests.unit.worker.still_clock import StillClock
from tests.unit.worker.stores import count_known, open_store

STREAM = parse_manifest(changed({"spec.repartition": {"partitions": 3}}), "-")
INPUTS = {"orders": 2}
BEGUN: list[Entry] = [Switch(epoch=0, partitions=2, inputs=INPUTS), Done(epoch=0)]
PREPARED: list[Entry] = [*BEGUN, Prepare(epoch=1, partitions=3)]
NUMBER = 2
END = KafkaError._PARTITION_EOF  # noqa: SLF001 (a public name)


def record(partition: int, offset: int, key: str | None, time_ms: int = 1) -> Message:
    packed = None if key is None else key.encode()
    return Message(*("clean", partition, offset), key=packed, value=b"v", timestamp=(1, time_ms))


def keys_of(owner: int, count: int) -> list[str]:
    """Keys whose records are routed to this partition by the new epoch."""
    names = [str(each) for each in range(200)]
    route = Route(STREAM.spec, RepartitionBy.ID, 3)
    owners = route.of([record(0, 0, name) for name in names]).partitions
    return [name for name, each in zip(names, owners, strict=True) if each == owner][:count]


OWN, OTHERS = keys_of(NUMBER, 6), keys_of(0, 6)


@dataclass
class Outputs:
    """The old outputs, and the consumer of them. `acts` are called one by one, before each read."""

    clock: StillClock
    logs: dict[int, list[Message]] = field(default_factory=lambda: {0: [], 1: []})
    lows: dict[int, int] = field(default_factory=dict)
    highs: dict[int, int] = field(default_factory=dict)
    stable: dict[int, int] = field(default_factory=dict)
    acts: list[Callable[[], None]] = field(default_factory=list)
    first_after_low: int | None = None
    waits: dict[int, int] = field(default_factory=dict)
    reads_from: list[dict[int, int]] = field(default_factory=list)
    most: int = 1_000
    unknown: bool = False
    reads: int = 0
    closed: int = 0

    def add(self, partition: int, *keys: str | None) -> None:
        log = self.logs[partition]
        for key in keys:
            log.append(record(partition, self.end(partition), key))
            self.highs[partition] = self.end(partition) + 1

    def end(self, partition: int) -> int:
        return self.highs.get(partition, 0)

    def high_watermark(self, _name: str, partition: int) -> int:
        return self.end(partition)

    # -- the consumer

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.positions = {each.partition: each.offset for each in partitions}
        self.reads_from.append(dict(self.positions))

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.waits |= {each.partition: self.positions.pop(each.partition) for each in partitions}

    def resume(self, partitions: list[TopicPartition]) -> None:
        self.positions |= {each.partition: self.waits.pop(each.partition) for each in partitions}

    def consume(self, _most: int, seconds: float) -> list[Message]:
        self.clock.sleep(seconds)
        self.reads += 1
        assert self.reads < 1_000, "the learning does not end"
        if self.acts:
            self.acts.pop(0)()
        if self.unknown:
            return []
        found: list[Message] = []
        for partition, position in self.positions.items():
            new = [each for each in self.logs[partition] if (each.offset() or 0) >= position]
            found += new[: self.most]
            if len(new) <= self.most:
                at, end = self.end(partition), KafkaError(END)
                found.append(Message(topic="clean", partition=partition, offset=at, error=end))
                self.positions[partition] = at
            else:
                self.positions[partition] = (found[-1].offset() or 0) + 1
        return found

    def get_watermark_offsets(self, at: TopicPartition, *, cached: bool) -> tuple[int, int]:
        assert cached
        return (-1001, -1001) if self.unknown else (0, self.end(at.partition))

    def close(self) -> None:
        self.closed += 1

    # -- the topics

    def offsets(self, name: str, partition: int) -> OffsetRange:
        assert name == "clean"
        return OffsetRange(self.lows.get(partition, 0), self.end(partition))

    def ends(self, name: str, partitions: Collection[int]) -> dict[int, int]:
        assert name == "clean"
        return {each: self.stable.get(each, self.end(each)) for each in partitions}

    def offset_at(self, _name: str, _partition: int, _when: datetime) -> int | None:
        return self.first_after_low


class Log:
    """The epoch log as its reader shows it: what arrives is known after a poll."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = list(entries)
        self.epochs = epochs_of(entries)

    def poll(self) -> Epochs:
        self.epochs = epochs_of(self.entries)
        return self.epochs


class Worker:
    """The parts of a session that learns."""

    def __init__(
        self, store: Store, *, partition: int = NUMBER, layout: ValueLayout | None = None
    ) -> None:
        layout = layout or ValueLayout()
        self.clock = StillClock()
        self.outputs = Outputs(self.clock)
        self.log = Log(PREPARED)
        self.store = store
        self.window = Window(store, layout.dtype)
        self.stop = Event()
        self.state = WorkerState(STREAM, partition, self.clock)
        factory: Any = SimpleNamespace(
            clock=self.clock,
            config=SimpleNamespace(stream=STREAM, partition=partition),
            policy=SimpleNamespace(layout=layout),
            worker_state=self.state,
            make_output_reader=self.open,
        )
        there: Any = SimpleNamespace(
            topics=self.outputs, output_topic=SimpleNamespace(name="clean", id="out")
        )
        log: Any = self.log
        assert STREAM.spec.repartition
        extract = extractor_for(STREAM.spec.id)
        self.learning = Learning(factory, there, STREAM.spec.repartition, log, extract, self.stop)

    def open(self, topic: str, hidden: Hidden) -> OutputReader:
        return OutputReader(self.outputs, topic, self.clock, hidden, FetchProgress())

    def cut(self, *positions: int) -> None:
        """Write the cuts of the growth."""
        self.log.entries.append(Cuts(epoch=1, cuts=dict(enumerate(positions))))

    def learn(self) -> None:
        self.learning.run(self.window, InputStart(9, None, 9), output_position=7)

    def knows(self, *keys: str) -> int:
        """Return how many ids are in the store."""
        return count_known(self.store, b"".join(pack_id(key.encode()) for key in keys))

    @property
    def remaining(self) -> int:
        assert self.state.reconcile is not None
        assert self.state.reconcile.reason == "Growth"
        return self.state.reconcile.remaining


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    """A worker that has caught up with its own output, which is empty."""
    made = Worker(open_store(tmp_path))
    made.window.commit(output_position=7, input_offset=9, seen_ms=0)
    yield made
    made.store.close()


def test_a_partition_that_was_there_from_the_start_has_nothing_to_learn(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    needed = [Worker(store, partition=each).learning.needed for each in range(3)]
    store.close()
    assert needed == [False, False, True]


def test_the_ids_that_become_its_own_are_learnt_and_no_others(worker: Worker) -> None:
    worker.outputs.add(0, OWN[0], OTHERS[0], None, OWN[1])
    worker.outputs.add(1, OTHERS[1], OWN[2])
    worker.cut(4, 2)
    worker.learn()
    assert worker.knows(*OWN[:3]) == 3
    assert worker.knows(*OTHERS) == 0
    assert worker.store.learnt.of(1) == {0: 4, 1: 2}
    assert worker.state.phase is Phase.RECONCILING
    assert worker.outputs.closed == 1


def test_what_comes_after_the_cut_is_not_its_own(worker: Worker) -> None:
    """Such a record is one that the old partition keeps, or a net has caught."""
    worker.outputs.add(0, OWN[0], OWN[1])
    worker.outputs.add(1, OWN[2])
    worker.cut(1, 1)
    worker.learn()
    assert worker.knows(OWN[0], OWN[2]) == 2
    assert worker.knows(OWN[1]) == 0


def test_old_outputs_are_followed_until_the_cuts_are_known(worker: Worker) -> None:
    outputs = worker.outputs
    outputs.add(0, OWN[0])
    seen: list[int] = []
    outputs.acts = [
        lambda: None,
        lambda: (seen.append(worker.remaining), outputs.add(0, OWN[1])),  # type: ignore[list-item,func-returns-value]
        lambda: None,
        lambda: (outputs.add(1, OWN[2]), worker.cut(2, 1)),  # type: ignore[list-item,func-returns-value]
    ]
    worker.learn()
    assert seen == [0], "nothing is left for now"
    assert worker.knows(*OWN[:3]) == 3
    assert worker.store.learnt.of(1) == {0: 2, 1: 1}


def test_the_store_says_up_to_where_it_has_learnt_and_nothing_is_read_again(
    tmp_path: Path,
) -> None:
    worker = Worker(open_store(tmp_path))
    worker.outputs.add(0, OWN[0], OTHERS[0])
    worker.outputs.add(1, OWN[1])
    worker.outputs.acts = [lambda: None, worker.stop.set]
    worker.learn()
    metadata = worker.store.metadata
    assert metadata is not None
    assert (metadata.learnt, metadata.output_position, metadata.input_offset) == (
        "1/0:2,1/1:1",
        7,
        9,
    )
    worker.store.close()
    again = Worker(open_store(tmp_path))
    again.outputs.logs, again.outputs.highs = worker.outputs.logs, worker.outputs.highs
    again.outputs.add(0, OWN[2])
    again.cut(3, 1)
    again.learn()
    assert again.outputs.reads_from == [{0: 2, 1: 1}]
    assert again.knows(*OWN[:3]) == 3
    again.store.close()


def test_a_store_that_has_learnt_all_reads_nothing(worker: Worker) -> None:
    worker.outputs.add(0, OWN[0])
    worker.cut(1, 0)
    worker.learn()
    worker.learn()
    assert worker.outputs.reads_from == [{0: 0, 1: 0}, {0: 1, 1: 0}]


def test_ids_and_positions_are_written_while_much_is_read(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one write, so that a kill at any time loses neither."""
    monkeypatch.setattr(module, "_WRITE_RECORDS", 2)
    worker.outputs.most = 1
    worker.outputs.add(0, *OWN)
    worker.cut(6, 0)
    seen: list[tuple[str, int]] = []

    def look() -> None:
        metadata = worker.store.metadata
        assert metadata is not None
        seen.append((metadata.learnt, metadata.keys))

    worker.outputs.acts = [look] * 6
    worker.learn()
    written = [each for each in dict.fromkeys(seen) if each[0]]
    assert written == [("1/0:2,1/1:0", 2), ("1/0:4,1/1:0", 4)]


def test_little_that_was_read_is_written_after_a_while(worker: Worker) -> None:
    worker.outputs.add(0, OWN[0])
    seen: list[bool] = []

    def look() -> None:
        metadata = worker.store.metadata
        assert metadata is not None
        seen.append(metadata.learnt != "")

    worker.outputs.acts = [*[look] * 40, lambda: worker.cut(1, 0)]
    worker.learn()
    assert seen[:20] == [False] * 20
    assert seen[-1], "before it is known where the output ends"


def add_timed(outputs: Outputs, *times_ms: int) -> None:
    """Add records of one id with these timestamps to an old output."""
    for time_ms in times_ms:
        outputs.logs[0].append(record(0, outputs.end(0), OWN[0], time_ms))
        outputs.highs[0] = outputs.end(0) + 1


@pytest.mark.parametrize("at_once", [1, 1_000])
@pytest.mark.parametrize("sessions", [1, 2])
def test_of_several_records_of_an_id_the_newest_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int, sessions: int
) -> None:
    """The old partition had forgotten the id before each but the first; timestamps are the producers'."""
    monkeypatch.setattr(module, "_WRITE_RECORDS", at_once)
    worker = Worker(open_store(tmp_path), layout=ValueLayout(timed=True))
    worker.outputs.most = at_once
    add_timed(worker.outputs, 5, 9)
    if sessions > 1:
        worker.outputs.acts = [lambda: None, lambda: None, worker.stop.set]
        worker.learn()
        worker.stop.clear()
    add_timed(worker.outputs, 7)
    worker.cut(3, 0)
    worker.learn()
    [found] = worker.window.find(pack_id(OWN[0].encode())).values()
    worker.store.close()
    assert timestamp_of(found) == 7


def test_an_output_of_an_older_partition_is_read_before_that_of_a_younger_one(
    tmp_path: Path,
) -> None:
    """An id moves to added partitions only, so its newest record is in the output of the youngest."""
    worker = Worker(open_store(tmp_path), layout=ValueLayout(timed=True))
    grown: list[Entry] = [
        Switch(epoch=0, partitions=1, inputs=INPUTS),
        Prepare(epoch=1, partitions=2),
        Switch(epoch=1, partitions=2, inputs=INPUTS),
        Cuts(epoch=1, cuts={0: 0}),
        Done(epoch=1),
        Prepare(epoch=2, partitions=3),
    ]
    worker.log.entries, worker.log.epochs = grown, epochs_of(grown)
    outputs = worker.outputs
    outputs.most = 1
    outputs.logs[1].append(record(1, 0, OWN[0], 7))
    outputs.highs[1] = 1
    outputs.add(0, *OTHERS)
    add_timed(outputs, 9)
    grown.append(Cuts(epoch=2, cuts={0: len(OTHERS) + 1, 1: 1}))
    worker.learn()
    [found] = worker.window.find(pack_id(OWN[0].encode())).values()
    worker.store.close()
    assert timestamp_of(found) == 7


def test_what_the_store_knows_of_its_own_output_is_kept(tmp_path: Path) -> None:
    """The catch-up follows, and must not bring back what was forgotten."""
    worker = Worker(open_store(tmp_path))
    own = [OffsetRange(6, 12)]
    worker.window.commit(output_position=7, input_offset=9, seen_ms=0, own=own)
    worker.outputs.add(0, OWN[0])
    worker.cut(1, 0)
    worker.learn()
    metadata = worker.store.metadata
    worker.store.close()
    assert metadata is not None
    assert (metadata.output_position, metadata.own_output) == (7, "6-12")


@pytest.mark.parametrize(
    ("first_in_window", "truncated"), [(None, True), (1, True), (2, True), (3, False)]
)
def test_a_window_is_shorter_if_records_of_it_were_deleted(
    worker: Worker, first_in_window: int | None, *, truncated: bool
) -> None:
    worker.outputs.add(0, OWN[0], OWN[1], OWN[2], OWN[3])
    worker.outputs.lows[0] = 2
    worker.outputs.first_after_low = first_in_window
    worker.cut(4, 0)
    worker.learn()
    assert worker.outputs.reads_from == [{0: 2, 1: 0}]
    metadata = worker.store.metadata
    assert metadata is not None
    assert metadata.truncated is truncated


def test_what_was_deleted_after_it_was_learnt_is_not_missed(worker: Worker) -> None:
    worker.store.learnt.advance(1, {0: 2})
    worker.outputs.add(0, OWN[0], OWN[1], OWN[2])
    worker.outputs.lows[0] = 2
    worker.cut(3, 0)
    worker.learn()
    metadata = worker.store.metadata
    assert metadata is not None
    assert not metadata.truncated


def test_a_stop_writes_what_was_read_and_waits_for_no_cut(worker: Worker) -> None:
    worker.outputs.add(0, OWN[0])
    worker.outputs.acts = [lambda: None, worker.stop.set]
    worker.learn()
    assert worker.knows(OWN[0]) == 1
    assert worker.outputs.closed == 1


def test_nothing_is_called_learnt_before_it_is_known_how_much_there_is(worker: Worker) -> None:
    """The first read may be over before the client has a connection; routers switch when little is left."""
    worker.outputs.add(0, *OWN, *OTHERS)
    worker.outputs.unknown = True
    worker.outputs.acts = [lambda: None, worker.stop.set]
    worker.learn()
    assert worker.remaining == 12


def test_a_log_that_cannot_be_read_on_ends_the_learning(worker: Worker) -> None:
    def fail() -> Epochs:
        raise EpochLogUnreadable("an entry is missing")

    worker.log.poll = fail  # type: ignore[method-assign]
    with pytest.raises(EpochLogUnreadable):
        worker.learn()
    assert worker.outputs.closed == 1


def test_an_output_that_ends_before_its_cut_is_read_to_its_end(worker: Worker) -> None:
    """It was deleted and created again, for example: what it had is gone, and waiting brings nothing."""
    worker.outputs.add(0, OWN[0])
    worker.cut(3, 0)
    worker.learn()
    assert worker.knows(OWN[0]) == 1
    metadata = worker.store.metadata
    assert metadata is not None
    assert metadata.truncated


def test_an_output_that_is_not_delivered_ends_the_learning(worker: Worker) -> None:
    worker.outputs.highs[0], worker.outputs.unknown = 3, True
    worker.cut(3, 0)
    with pytest.raises(BrokerUnavailable, match="3 offsets are left"):
        worker.learn()
    assert worker.outputs.closed == 1


def test_an_open_transaction_in_an_old_output_is_named_and_waited_for(worker: Worker) -> None:
    outputs, shown = worker.outputs, list[str | None]()
    outputs.add(0, "a", "b")
    outputs.highs[1] = outputs.highs[0]
    outputs.stable, outputs.unknown = {0: 0, 1: 0}, True
    worker.cut(2, 0)

    def look() -> None:
        shown.append(worker.state.status().reason)

    def end() -> None:
        outputs.unknown, outputs.stable = False, {}

    outputs.acts = [look] * 500 + [end]
    worker.learn()
    assert shown[0] is None
    assert shown[-1] == "OpenTransaction"
    assert worker.state.status().reason is None
    assert worker.remaining == 0
