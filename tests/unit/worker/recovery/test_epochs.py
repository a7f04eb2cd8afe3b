"""A session reads from the epoch log what to learn first, and what was passed."""

from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_growth.entries import (
    Cuts,
    Direct,
    Done,
    Entry,
    EpochLogUnreadable,
    HandedOver,
    Prepare,
    RouterStart,
    Switch,
)
from dedupe_growth.epochs import Epochs, epochs_of
from dedupe_growth.log import EpochLogMissing
from dedupe_growth.mark import Mark
from dedupe_ids.extract import extractor_for
from dedupe_kafka.errors import Stopped
from dedupe_kafka.offset_metadata import Cut, encode_metadata
from dedupe_worker.dedup.border import Border, NoBorder
from dedupe_worker.kafka.committed import Committed
from dedupe_worker.recovery.epochs import NoEpochs, SessionEpochs, read_epochs
from dedupe_worker.recovery.learning import Learning
from tests.unit.crds.manifests import changed
from tests.unit.worker.recovery.partitions import taken_over

ROUTED = parse_manifest(changed({"spec.repartition": {"partitions": 2}}), "-")
DIRECT = parse_manifest(changed({}), "-")
BEGUN: list[Entry] = [Switch(epoch=0, partitions=2, inputs={}), Done(epoch=0)]
PREPARED: list[Entry] = [*BEGUN, Prepare(epoch=1, partitions=4)]
CUT: list[Entry] = [
    *PREPARED,
    Switch(epoch=1, partitions=4, inputs={}),
    Cuts(epoch=1, cuts={0: 3, 1: 4}),
]
GROWN: list[Entry] = [*CUT, Done(epoch=1)]
AGAIN: list[Entry] = [*GROWN, Prepare(epoch=2, partitions=6)]


class Log:
    """The epoch log; a test sets what reading it raises."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.epochs = Epochs()
        self.fails: Exception | None = None
        self.closed = False

    def read_to_end(self, _stop: Event | None = None) -> Epochs:
        if self.fails:
            raise self.fails
        self.epochs = epochs_of(self.entries)
        return self.epochs

    def close(self) -> None:
        self.closed = True


def factory_of(partition: int, log: Log, stream: DedupeStream = ROUTED) -> Any:  # noqa: ANN401 # as much of a factory as is used
    return SimpleNamespace(
        config=SimpleNamespace(stream=stream, partition=partition), make_epoch_reader=lambda: log
    )


def session(partition: int, entries: list[Entry]) -> SessionEpochs:
    factory, extract = factory_of(partition, Log(entries)), extractor_for(ROUTED.spec.id)
    there: Any = SimpleNamespace()
    with read_epochs(factory, there, extract, Event()) as found:
        assert isinstance(found, SessionEpochs)
    return found


def committed(cut: Cut | None) -> Committed:
    return Committed(7, encode_metadata("Out1", "Btw1", None, cut))


def border(partition: int, entries: list[Entry], cut: Cut | None = None) -> Border:
    found = session(partition, entries).border(committed(cut), position=50)
    assert isinstance(found, Border)
    return found


def passed(at: Border) -> int:
    """Return the epoch that a border has passed: the marks up to it change nothing."""
    before = at.cut
    for epoch in range(9):
        at.pass_mark(Mark(epoch, 9), 99)
        if at.cut != before:
            return epoch - 1
    raise AssertionError("no mark is passed")


# -- a stream that gets routers ----------------------------------------------------------------------


def test_the_input_before_routers_is_known_also_if_it_was_created_again() -> None:
    starts = {0: RouterStart(offset=1, topic_id="In2")}
    entries: list[Entry] = [
        Direct(epoch=0, partitions=1, topic="orders", topic_id="In1"),
        Prepare(epoch=1, partitions=1),
        HandedOver(epoch=1, cuts={0: 1}, starts=starts),
    ]
    partition = taken_over(None)
    assert session(0, entries).described(partition).earlier_inputs == {"In1", "In2"}
    assert session(0, entries[:2]).described(partition).earlier_inputs == {"In1"}
    assert session(0, BEGUN).described(partition).earlier_inputs == frozenset()


# -- borders -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [None, Cut(0, 5)])
@pytest.mark.parametrize("entries", [BEGUN, PREPARED, CUT])
def test_an_old_partition_has_passed_what_it_has_committed(
    entries: list[Entry], cut: Cut | None
) -> None:
    """Also while the growth goes on: its mark is in the repartition topic, before it or behind."""
    at = border(1, entries, cut)
    assert (at.cut, at.unrecorded) == (cut, False)
    assert passed(at) == 0


def test_the_cut_of_an_old_partition_stays_as_it_was_committed() -> None:
    at = border(1, CUT, Cut(1, 4))
    assert (at.cut, at.unrecorded) == (Cut(1, 4), False)
    assert passed(at) == 1


def test_a_growth_that_is_done_was_passed_by_all() -> None:
    """Also if an offset without a cut was set by a user."""
    at = border(1, GROWN)
    assert (at.cut, at.unrecorded) == (None, False)
    assert passed(at) == 1


@pytest.mark.parametrize("entries", [PREPARED, CUT, GROWN, AGAIN])
def test_an_added_partition_passes_its_first_epoch_by_learning(entries: list[Entry]) -> None:
    at = border(3, entries)
    assert (at.cut, at.unrecorded) == (Cut(1, 50), True)
    assert passed(at) == 1


def test_an_added_partition_commits_that_once() -> None:
    at = border(3, GROWN, Cut(1, 8))
    assert (at.cut, at.unrecorded) == (Cut(1, 8), False)
    at = border(3, AGAIN, Cut(2, 60))
    assert (at.cut, at.unrecorded) == (Cut(2, 60), False)
    assert passed(at) == 2


def test_an_added_partition_of_a_second_growth_knows_its_own() -> None:
    at = border(5, AGAIN)
    assert (at.cut, at.unrecorded) == (Cut(2, 50), True)


def test_a_worker_without_a_committed_offset_has_passed_nothing() -> None:
    found = session(0, PREPARED).border(None, position=50)
    assert isinstance(found, Border)
    assert found.cut is None
    assert passed(found) == 0


@pytest.mark.parametrize(
    ("partition", "entries", "cut"),
    [(0, BEGUN, Cut(1, 4)), (3, BEGUN, None), (0, GROWN, Cut(2, 4))],
)
def test_a_log_that_lacks_what_was_passed_is_not_believed(
    partition: int, entries: list[Entry], cut: Cut | None
) -> None:
    with pytest.raises(EpochLogUnreadable, match="restore its topic from a copy"):
        border(partition, entries, cut)


# -- learning ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("partition", "entries", "learns"),
    [(0, GROWN, False), (1, PREPARED, False), (2, PREPARED, True), (3, GROWN, True)],
)
def test_only_an_added_partition_learns(
    monkeypatch: pytest.MonkeyPatch, partition: int, entries: list[Entry], *, learns: bool
) -> None:
    """Also long after its growth: its store may be an older one."""
    told: list[tuple[object, int]] = []

    def run(_self: Learning, _window: object, start: object, *, output_position: int) -> None:
        told.append((start, output_position))

    monkeypatch.setattr(Learning, "run", run)
    window: Any = SimpleNamespace()
    start: Any = SimpleNamespace(offset=11)
    session(partition, entries).learn(window, start, position=50)
    assert told == ([(start, 50)] if learns else [])


# -- reading the log -----------------------------------------------------------------------------------


def test_a_stream_without_routers_has_no_epochs() -> None:
    log = Log(BEGUN)
    nothing: Any = SimpleNamespace()
    extract = extractor_for(DIRECT.spec.id)
    with read_epochs(factory_of(0, log, DIRECT), nothing, extract, Event()) as found:
        assert type(found) is NoEpochs
        found.learn(nothing, nothing, position=0)
        assert type(found.border(None, position=0)) is NoBorder
    assert log.epochs == Epochs(), "it is not read"


@pytest.mark.parametrize("fails", [None, EpochLogMissing("no log"), Stopped("reading")])
def test_the_log_is_closed_with_the_session(fails: Exception | None) -> None:
    log = Log(BEGUN)
    log.fails = fails
    there: Any = SimpleNamespace()
    reading = read_epochs(factory_of(0, log), there, extractor_for(ROUTED.spec.id), Event())
    if fails:
        with pytest.raises(type(fails)):
            reading.__enter__()
    else:
        with reading:
            assert not log.closed
    assert log.closed


def test_a_worker_of_a_partition_that_the_log_lacks_names_it() -> None:
    nothing: Any = None
    with pytest.raises(EpochLogUnreadable, match="partition 2 is of epoch"):
        session(2, BEGUN).learn(nothing, nothing, position=0)


def test_an_empty_log_is_named_as_missing() -> None:
    nothing: Any = None
    with pytest.raises(EpochLogMissing, match="restore its topic from a copy"):
        session(0, []).learn(nothing, nothing, position=0)
    with pytest.raises(EpochLogMissing):
        border(0, [], Cut(1, 4))
