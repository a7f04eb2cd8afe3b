"""The epoch by which a router routes, as the log shows it."""

from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_growth.entries import Cuts, Done, Entry, Listed, Prepare, Switch
from dedupe_growth.epochs import NO_EPOCH, Epochs
from dedupe_growth.log import EpochLogMissing
from dedupe_kafka.errors import Stopped
from dedupe_router.adoption import Adoption
from tests.unit.crds.manifests import changed
from tests.unit.router.group import FakeLog, record

NAMED = {"spec.input": {"topics": ["raw", "other"]}, "spec.repartition": {"partitions": 2}}
SPEC = parse_manifest(changed(NAMED), "-").spec
START = Switch(epoch=0, partitions=2, inputs={"raw": 2})
GROWTH: list[Entry] = [
    Prepare(epoch=1, partitions=4),
    Switch(epoch=1, partitions=4, inputs={"raw": 2}),
    Cuts(epoch=1, cuts={0: 4, 1: 5}),
    Done(epoch=1),
]
RECORDS = [record(key=b"%d" % number) for number in range(30)]


def adopting(log: FakeLog, by: RepartitionBy = RepartitionBy.ID) -> Adoption:
    return Adoption(log, SPEC, by)


def begun(*more: Entry) -> tuple[FakeLog, Adoption]:
    log = FakeLog(START, Done(epoch=0), *more)
    adoption = adopting(log)
    adoption.begin(Event())
    return log, adoption


def targets(adoption: Adoption) -> set[int]:
    return set(adoption.route.of(RECORDS).partitions)


def test_a_router_begins_with_the_newest_epoch() -> None:
    _, adoption = begun()
    assert (adoption.epoch, adoption.partitions, targets(adoption)) == (0, 2, {0, 1})
    _, adoption = begun(*GROWTH)
    assert (adoption.epoch, adoption.partitions, targets(adoption)) == (1, 4, {0, 1, 2, 3})
    assert adoption.known == 6


@pytest.mark.parametrize("entries", [[], [Prepare(epoch=0, partitions=2)]])
def test_without_an_epoch_a_router_does_not_begin(entries: list[Entry]) -> None:
    adoption = adopting(FakeLog(*entries))
    with pytest.raises(EpochLogMissing, match="writes the first one"):
        adoption.begin(Event())
    assert adoption.epoch == NO_EPOCH


def test_a_stop_ends_the_first_read() -> None:
    class Stopping(FakeLog):
        def read_to_end(self, stop: Event | None = None) -> Epochs:
            assert stop is not None
            assert stop.is_set()
            raise Stopped("reading")

    stop = Event()
    stop.set()
    with pytest.raises(Stopped):
        adopting(Stopping(START)).begin(stop)


def test_a_router_follows_the_switch_and_nothing_before_it() -> None:
    log, adoption = begun()
    seen = []
    for entry in GROWTH:
        log.entries.append(entry)
        adoption.follow()
        seen.append((adoption.epoch, adoption.partitions, len(targets(adoption))))
    assert seen == [(0, 2, 2), (1, 4, 4), (1, 4, 4), (1, 4, 4)]


def test_an_old_epoch_is_not_adopted_after_a_newer_one() -> None:
    log, adoption = begun(*GROWTH)
    log.entries = log.entries[:2]  # read anew, by a reader that is behind
    adoption.follow()
    assert (adoption.epoch, adoption.partitions) == (1, 4)


def test_what_arrives_is_adopted_by_follow_only() -> None:
    """Between two transactions, never within one."""
    log, adoption = begun()
    log.entries += GROWTH
    log.poll()
    assert (adoption.epoch, targets(adoption)) == (0, {0, 1})
    adoption.follow()
    assert (adoption.epoch, targets(adoption)) == (1, {0, 1, 2, 3})


def test_records_are_routed_by_key_if_the_manifest_says_so() -> None:
    keyed = parse_manifest(
        changed(
            {"spec.id": {"from": "Header", "name": "h"}, "spec.repartition": {"partitions": 2}}
        ),
        "-",
    ).spec
    same_id = [record(key=b"%d" % each, headers=[("h", b"same")]) for each in range(30)]
    by_id, by_key = (Adoption(FakeLog(START), keyed, each) for each in RepartitionBy)
    for adoption in (by_id, by_key):
        adoption.begin(Event())
    assert len(set(by_id.route.of(same_id).partitions)) == 1
    assert set(by_key.route.of(same_id).partitions) == {0, 1}


# -- what may be routed ------------------------------------------------------------------------------


@pytest.mark.parametrize("committed", [NO_EPOCH, 0])
def test_a_listed_partition_of_this_epoch_or_an_older_one_is_routed(committed: int) -> None:
    _, adoption = begun()
    assert adoption.refuses(("raw", 1), committed) == ""
    _, adoption = begun(*GROWTH)
    assert adoption.refuses(("raw", 1), committed) == ""


def test_a_partition_that_a_newer_epoch_has_routed_waits_for_the_log_to_show_it() -> None:
    log, adoption = begun()
    assert "by epoch 1, and epoch 0 is known here" in adoption.refuses(("raw", 1), 1)
    log.entries += GROWTH
    adoption.follow()
    assert adoption.refuses(("raw", 1), 1) == ""


@pytest.mark.parametrize("place", [("raw", 2), ("other", 0)])
def test_a_partition_that_is_not_listed_waits(place: tuple[str, int]) -> None:
    log, adoption = begun()
    assert "is new" in adoption.refuses(place, NO_EPOCH)
    log.entries.append(Listed(epoch=0, inputs={"raw": 3, "other": 1}))
    adoption.follow()
    assert adoption.refuses(place, NO_EPOCH) == ""


def test_a_former_input_is_known_by_the_log_and_the_manifest() -> None:
    log, adoption = begun()
    assert adoption.former == []
    log.entries.append(Listed(epoch=0, inputs={"gone": 2, "other": 1}))
    adoption.follow()
    assert adoption.former == ["gone"]
    assert (adoption.is_former("gone"), adoption.is_former("other")) == (True, False)


def test_a_former_input_waits_for_no_list_but_for_a_newer_epoch() -> None:
    """Nobody lists partitions that it gets while it is out; an epoch never goes back."""
    log, adoption = begun()
    assert adoption.refuses(("gone", 9), 0) == ""
    assert "by epoch 1" in adoption.refuses(("gone", 0), 1)
    log.entries += GROWTH
    adoption.follow()
    assert adoption.refuses(("gone", 0), 1) == ""


def test_what_an_older_epoch_lists_is_not_routed_by_a_newer_one() -> None:
    """The growth waits for those that the switch lists, and for no other."""
    log, adoption = begun(Listed(epoch=0, inputs={"other": 1}))
    assert adoption.refuses(("other", 0), 0) == ""
    log.entries += GROWTH
    adoption.follow()
    assert "is new" in adoption.refuses(("other", 0), 0)
    log.entries.append(Listed(epoch=1, inputs={"other": 1}))
    adoption.follow()
    assert adoption.refuses(("other", 0), 0) == ""


@given(st.integers(0, 6), st.integers(-1, 2), st.integers(0, 3))
def test_no_partition_is_routed_by_an_epoch_before_that_of_its_offset(
    read: int, committed: int, partition: int
) -> None:
    log = FakeLog(START, Done(epoch=0), *GROWTH)
    log.entries = log.entries[: max(1, read)]
    adoption = adopting(log)
    adoption.begin(Event())
    routed = not adoption.refuses(("raw", partition), committed)
    assert routed == (committed <= adoption.epoch and partition < 2)
