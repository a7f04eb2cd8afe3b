"""Late records: what an id says of them, and that one which is routed away is not taken for known."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Message

from dedupe_crds.spec.topics import Delivery, IdFrom, IdSource, Mode
from dedupe_ids.extract import extractor_for, pack_id
from dedupe_worker.dedup.classify import Classifier, Verdict
from dedupe_worker.dedup.policy import Policy
from dedupe_worker.dedup.uncommitted_output import UncommittedIds
from dedupe_worker.dedup.window import Window
from dedupe_worker.store.rocksdb import Store
from tests.unit.worker.stores import open_store
from tests.unit.worker.strategies import message

DAY_MS = 86_400_000
NOW_MS = 1_000 * DAY_MS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path)
    yield opened
    opened.close()


class Partition:
    """One partition's classifier, a day after another: what it decides, and what the store then remembers."""

    def __init__(
        self,
        store: Store,
        policy: Policy,
        uncommitted: UncommittedIds | None = None,
        offset: int = 0,
    ) -> None:
        self.store = store
        self._window = Window(store, policy.layout.dtype)
        self._classifier = Classifier(
            policy,
            partition=0,
            window=self._window,
            extract=extractor_for(IdSource.model_validate({"from": IdFrom.KEY})),
            uncommitted=uncommitted,
        )
        self._offset = offset

    def take(self, *records: tuple[bytes | None, int], day: int) -> Verdict:
        """Records of keys and the days of their timestamps, committed on a day."""
        batch: list[Message] = []
        for key, own_day in records:
            batch.append(message(self._offset, key, b"v", time_ms=NOW_MS + own_day * DAY_MS))
            self._offset += 1
        now_ms = NOW_MS + day * DAY_MS
        identified = self._classifier.identify(batch)
        verdict = self._classifier.classify(batch, identified, now_ms)
        self._window.commit(
            output_position=self._offset,
            input_offset=self._offset,
            seen_ms=now_ms,
            newest_ms=identified.newest_ms,
        )
        self.store.age(now_ms)
        return verdict


ROUTED = Policy(late_topic="late")


def test_nothing_is_late_before_anything_was_forgotten(store: Store) -> None:
    verdict = Partition(store, ROUTED).take((b"a", -900), (b"b", 0), day=0)
    assert verdict.late == 0
    assert verdict.passed.all()


def forgetful(store: Store, policy: Policy) -> Partition:
    """One that has forgotten what it saw on day 0, of records up to day -1, and remembers days 20 to 29."""
    partition = Partition(store, policy)
    partition.take((b"old", -1), (b"older", -3), day=0)
    store.age(NOW_MS + 6 * DAY_MS)  # the generation is sealed
    for day in (20, 29):
        partition.take((b"day %d" % day, day), day=day)
    assert store.forgotten_ms == NOW_MS - DAY_MS
    return partition


def test_a_record_older_than_what_was_forgotten_is_routed_and_not_learnt(store: Store) -> None:
    partition = forgetful(store, ROUTED)
    for _ in range(2):
        verdict = partition.take((b"old", -2), (b"new", 29), (None, -2), day=29)
        assert verdict.late == 1
        assert [one.record.key() for one in verdict.routed] == [b"old"]
        assert verdict.passed.tolist()[0::2] == [False, True]
    assert verdict.passed.tolist() == [False, False, True]


def test_a_record_of_before_whose_id_is_remembered_is_a_duplicate(store: Store) -> None:
    partition = forgetful(store, ROUTED)
    verdict = partition.take((b"day 20", -2), (b"now", 29), (b"now", -2), day=29)
    assert (verdict.late, verdict.duplicates) == (0, 2)
    assert verdict.passed.tolist() == [False, True, False]


def test_a_copy_behind_it_is_not_what_a_late_record_repeats(store: Store) -> None:
    """As if the batch had been cut between them."""
    verdict = forgetful(store, ROUTED).take((b"now", -2), (b"now", 29), day=29)
    assert (verdict.late, verdict.duplicates) == (1, 0)
    assert verdict.passed.tolist() == [False, True]


def test_what_is_late_and_only_observed_is_learnt(store: Store) -> None:
    partition = forgetful(store, replace(ROUTED, mode=Mode.OBSERVE))
    for duplicates in (0, 1):
        verdict = partition.take((b"old", -2), day=29)
        assert verdict.passed.tolist() == [True]
        assert verdict.duplicates == duplicates


def test_what_had_come_out_before_a_crash_is_dropped_as_often_and_is_no_duplicate(
    store: Store,
) -> None:
    policy = Policy(delivery=Delivery.AT_LEAST_ONCE, duplicates_topic="again")
    Partition(store, policy).take((b"a", 0), (b"b", 0), (b"c", 0), day=0)
    again = UncommittedIds([(0, pack_id(b"a")), (1, pack_id(b"b"))], end=5)
    partition = Partition(store, policy, again, offset=3)
    verdict = partition.take((b"a", 0), (b"a", 1), day=0)
    assert (verdict.redelivered, verdict.duplicates) == (1, 1)
    assert verdict.passed.tolist() == [False, False]
    verdict = partition.take((b"b", 0), day=0)  # it is at 5, where nobody had read
    assert (verdict.redelivered, verdict.duplicates) == (0, 1)


@pytest.mark.parametrize("late", ["PASS", "TOPIC"])
def test_what_had_come_out_before_a_crash_is_dropped_though_its_id_was_forgotten_since(
    store: Store, late: str
) -> None:
    """By a table that has its slot overwritten, or a small window."""
    topic = "late" if late == "TOPIC" else None
    policy = Policy(delivery=Delivery.AT_LEAST_ONCE, late_topic=topic)
    again = UncommittedIds([(0, pack_id(b"a")), (1, pack_id(b"b"))], end=9)
    partition = Partition(store, policy, again, offset=3)
    verdict = partition.take((b"a", 0), (b"new", 0), (b"a", 1), (b"b", 0), day=0)
    assert (verdict.redelivered, verdict.duplicates, verdict.late) == (2, 1, 0)
    assert verdict.passed.tolist() == [False, True, False, False]
    verdict = partition.take((b"a", 0), (b"b", 0), day=0)
    assert (verdict.redelivered, verdict.duplicates) == (0, 2), "they are remembered again"


def test_what_is_late_is_passed_on_and_counted_where_it_is_not_routed(store: Store) -> None:
    verdict = forgetful(store, Policy()).take((b"old", -2), (b"day 20", -2), day=29)
    assert (verdict.late, verdict.duplicates) == (1, 1)
    assert verdict.passed.tolist() == [True, False]


def test_what_was_forgotten_is_on_record_after_a_crash(tmp_path: Path) -> None:
    store = open_store(tmp_path / "left")
    forgetful(store, ROUTED)
    store.checkpoint(tmp_path / "copy")  # as a crash would leave it: what is on disk
    store.close()
    copy = open_store(tmp_path / "copy")
    assert copy.forgotten_ms == NOW_MS - DAY_MS
    copy.close()
