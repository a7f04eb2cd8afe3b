"""Entries of the epoch log, read together."""

import pytest

from dedupe_growth.entries import (
    Cuts,
    Direct,
    Done,
    Entry,
    HandedOver,
    Listed,
    Prepare,
    RouterStart,
    Switch,
)
from dedupe_growth.epochs import NO_EPOCH, Epochs, epochs_of

BEGUN: list[Entry] = [Switch(epoch=0, partitions=4, inputs={"a": 2}), Done(epoch=0)]
GROWN: list[Entry] = [
    *BEGUN,
    Prepare(epoch=1, partitions=6),
    Switch(epoch=1, partitions=6, inputs={"a": 2, "b": 1}),
    Cuts(epoch=1, cuts={0: 10, 1: 11, 2: 12, 3: 13}),
    Done(epoch=1),
]


def test_an_empty_log_has_no_epoch_no_workers_and_no_growth() -> None:
    assert epochs_of([]) == Epochs()
    assert (Epochs().prepared, Epochs().switched, Epochs().done) == (NO_EPOCH,) * 3
    assert (Epochs().workers, Epochs().grows, Epochs().lists("a", 0)) == (0, False, False)


@pytest.mark.parametrize(
    ("entries", "known", "workers", "grows"),
    [
        (1, (0, 0, -1), 4, True),
        (2, (0, 0, 0), 4, False),
        (3, (1, 0, 0), 6, True),
        (4, (1, 1, 0), 6, True),
        (5, (1, 1, 0), 6, True),
        (6, (1, 1, 1), 6, False),
    ],
)
def test_each_entry_brings_the_growth_forward(
    entries: int, known: tuple[int, int, int], workers: int, *, grows: bool
) -> None:
    found = epochs_of(GROWN[:entries])
    assert found.entries == entries
    assert (found.prepared, found.switched, found.done) == known
    assert (found.workers, found.grows) == (workers, grows)


def test_of_one_epoch_the_first_entry_counts() -> None:
    again: list[Entry] = [
        Prepare(epoch=1, partitions=9),
        Switch(epoch=1, partitions=9, inputs={"a": 1, "c": 7}),
        Cuts(epoch=1, cuts={0: 99}),
    ]
    first, found = epochs_of(GROWN), epochs_of([*GROWN, *again])
    assert found.entries == 9
    assert found.partitions == {0: 4, 1: 6}
    assert (found.cuts, found.switch_inputs) == (first.cuts, first.switch_inputs)
    assert found.inputs[1] == {"a": 2, "b": 1, "c": 7}, "lists of inputs only grow"


def test_the_highest_epoch_counts_whatever_comes_after_it() -> None:
    old: list[Entry] = [Prepare(epoch=0, partitions=3), *BEGUN]
    found = epochs_of([*GROWN, *old])
    assert (found.prepared, found.switched, found.done) == (1, 1, 1)
    assert (found.workers, found.partitions[0]) == (6, 4)
    assert found.lists("b", 0), "by the highest epoch"


def test_an_input_is_listed_for_the_epoch_that_is_switched_to() -> None:
    found = epochs_of([*BEGUN, Listed(epoch=0, inputs={"a": 1, "b": 3})])
    assert found.inputs[0] == {"a": 2, "b": 3}, "a topic's count never falls"
    assert found.switch_inputs[0] == {"a": 2}, "a growth waits for those of its switch only"
    assert [found.lists("a", each) for each in range(3)] == [True, True, False]
    assert [found.lists("b", each) for each in range(4)] == [True, True, True, False]
    grown = found.followed_by(Switch(epoch=1, partitions=6, inputs={"a": 2}))
    assert not grown.lists("b", 0), "what an older epoch lists is not of the new one"


def test_a_list_of_a_later_epoch_lets_nothing_be_routed_yet() -> None:
    found = epochs_of([*BEGUN, Listed(epoch=1, inputs={"b": 3})])
    assert not found.lists("b", 0)
    assert found.switched == 0


def test_a_partition_is_born_in_the_first_epoch_that_has_it() -> None:
    found = epochs_of(GROWN)
    assert [found.born(each) for each in (0, 3, 4, 5)] == [0, 0, 1, 1]
    assert found.born(6) == 2, "of the next growth"
    assert epochs_of([]).born(0) == 0


def test_an_epoch_adds_partitions_to_those_before_it() -> None:
    found = epochs_of([*GROWN, Prepare(epoch=2, partitions=9)])
    assert [found.before(each) for each in range(4)] == [range(0), range(4), range(6), range(9)]
    assert [found.added(each) for each in range(3)] == [range(4), range(4, 6), range(6, 9)]


def test_entries_change_no_epochs_that_someone_holds() -> None:
    held = epochs_of(BEGUN)
    for entry in GROWN[2:]:
        held.followed_by(entry)
    assert held == epochs_of(BEGUN)


# -- a stream that gets routers ----------------------------------------------------------------------

DIRECT = Direct(epoch=0, partitions=2, topic="a", topic_id="In1")
STARTS = {0: RouterStart(offset=7, topic_id="In1"), 1: RouterStart(offset=8, topic_id="In1")}
CHANGED: list[Entry] = [
    DIRECT,
    Prepare(epoch=1, partitions=3),
    HandedOver(epoch=1, cuts={0: 10, 1: 11}, starts=STARTS),
    Switch(epoch=1, partitions=3, inputs={"a": 2}),
    Done(epoch=1),
]
GROWN_AFTER: list[Entry] = [*CHANGED, Prepare(epoch=2, partitions=4)]


@pytest.mark.parametrize(
    ("entries", "known", "workers", "grows"),
    [
        (1, (0, -1, -1), 2, True),
        (2, (1, -1, -1), 3, True),
        (3, (1, -1, -1), 3, True),
        (4, (1, 1, -1), 3, True),
        (5, (1, 1, 1), 3, False),
    ],
)
def test_each_entry_brings_the_change_forward(
    entries: int, known: tuple[int, int, int], workers: int, *, grows: bool
) -> None:
    found = epochs_of(CHANGED[:entries])
    assert (found.prepared, found.switched, found.done) == known
    assert (found.workers, found.grows, found.direct) == (workers, grows, DIRECT)


def test_the_first_entries_of_a_change_count() -> None:
    others: list[Entry] = [
        Direct(epoch=0, partitions=9, topic="b", topic_id="In2"),
        HandedOver(epoch=1, cuts={0: 99}, starts={0: RouterStart(offset=99, topic_id="In2")}),
    ]
    first, found = epochs_of(CHANGED), epochs_of([*CHANGED, *others])
    assert (found.direct, found.starts, found.cuts) == (DIRECT, STARTS, first.cuts)
    assert found.partitions == {0: 2, 1: 3}


def test_routers_begin_where_their_input_was_handed_over() -> None:
    found = epochs_of(CHANGED)
    assert [found.start("a", each) for each in range(3)] == [STARTS[0], STARTS[1], None]
    assert found.start("b", 0) is None, "no worker has read it"
    assert epochs_of(CHANGED[:2]).start("a", 0) is None
    assert epochs_of(BEGUN).start("a", 0) is None


def test_all_partitions_learn_when_a_stream_gets_routers() -> None:
    found = epochs_of(GROWN_AFTER)
    assert (found.first, epochs_of(BEGUN).first) == (1, 0)
    assert [found.born(each) for each in range(5)] == [1, 1, 1, 2, 3]
    assert [found.sources(each) for each in range(4)] == [[1], [0], [0, 1], [0, 1, 2]]
    assert [*found.added(1)] == [0, 1, 2]
    assert [*found.added(2)] == [3]
