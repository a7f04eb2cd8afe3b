"""Offsets and owners in a store are of one input topic, and unknown for another."""

import shutil
from pathlib import Path

import pytest

from dedupe_crds.spec.topics import Delivery
from dedupe_worker.dedup.policy import Policy
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.bloom_filter import hash_ids
from dedupe_worker.values import UNKNOWN_OWNER
from tests.golden import FILES
from tests.golden.stores import (
    FIRST_OFFSET,
    GENERATIONS,
    make_classifier,
    open_store,
    open_table,
    packed_id,
    record,
    remember,
    seen_ms,
    stored_value,
)

ROUTING = Policy(duplicates_topic="again", conflicts_topic="odd")
ORDERS = range(40)
LATER = range(40, 80)


@pytest.fixture(params=["RocksDB", "InverseBloom"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def opened(kind: str, path: Path, value_bytes: int = 18) -> IdStore:
    return open_store(path) if kind == "RocksDB" else open_table(path, 1 << 20, value_bytes)


def as_killed(path: Path) -> Path:
    """Return a copy of the files as they are on disk now."""
    return shutil.copytree(path, path.with_name(f"{path.name}-killed"))


def values(store: IdStore, numbers: range) -> list[bytes]:
    ids = [packed_id(number) for number in numbers]
    found = store.lookup(ids, hash_ids(b"".join(ids)))
    located = {id_: value for id_, (value, _) in store.locate(ids).items()}
    assert located == found
    return [found[each] for each in ids]


def of_orders(numbers: range, *, known: bool) -> list[bytes]:
    """Return the values of orders, with their owners or without."""
    written = [stored_value(number, timed=True, hashed=True) for number in numbers]
    return written if known else [UNKNOWN_OWNER + value[8:] for value in written]


def test_owners_of_another_input_topic_are_unknown_and_the_rest_of_a_value_stays(
    kind: str, tmp_path: Path
) -> None:
    store = opened(kind, tmp_path / "db")
    store.begin_input("first")
    remember(store, ROUTING, ORDERS, seen_ms(0))
    assert values(store, ORDERS) == of_orders(ORDERS, known=True)
    store.begin_input("second")
    remember(store, ROUTING, LATER, seen_ms(0))
    for _ in range(2):
        assert values(store, ORDERS) == of_orders(ORDERS, known=False)
        assert values(store, LATER) == of_orders(LATER, known=True)
        store.close()
        store = opened(kind, tmp_path / "db")
        store.begin_input("second", unlabelled="third")
    store.close()


def test_an_offset_of_another_input_topic_is_gone_from_disk_when_the_topic_begins(
    kind: str, tmp_path: Path
) -> None:
    store = opened(kind, tmp_path / "db")
    store.begin_input("first")
    remember(store, ROUTING, ORDERS, seen_ms(0))
    store.flush()
    store.begin_input("second")
    store.mark_truncated()
    after = opened(kind, as_killed(tmp_path / "db"))
    for each in (store, after):
        assert each.metadata is not None
        assert (each.metadata.input_offset, each.metadata.input_topic) == (0, "second")
        assert each.metadata.output_position == ORDERS.stop, "the output is the same"
        each.close()


def test_the_same_input_topic_changes_nothing(kind: str, tmp_path: Path) -> None:
    store = opened(kind, tmp_path / "db")
    store.begin_input("first")
    remember(store, ROUTING, ORDERS, seen_ms(0))
    before = store.metadata, len(store.generations())
    store.begin_input("first", unlabelled="second")
    assert (store.metadata, len(store.generations())) == before
    assert values(store, ORDERS) == of_orders(ORDERS, known=True)
    store.close()


@pytest.mark.parametrize("known", [True, False])
def test_a_store_of_an_earlier_release_is_of_the_topic_that_is_recorded(
    tmp_path: Path, *, known: bool
) -> None:
    path = shutil.copytree(FILES / "values", tmp_path / "db")
    store = open_store(path)
    store.begin_input("now", unlabelled="now" if known else "before")
    for _ in range(2):
        assert store.metadata is not None
        offset = FIRST_OFFSET + GENERATIONS[-1].stop
        assert store.metadata.input_offset == (offset if known else 0)
        for numbers in GENERATIONS:
            assert values(store, numbers) == of_orders(numbers, known=known)
        store.close()
        store = open_store(path)
        store.begin_input("now", unlabelled="now")  # the identity of the topic is recorded by now
    store.close()


@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_record_with_the_offset_of_another_topic_s_is_a_duplicate_and_not_redelivered(
    kind: str, tmp_path: Path, delivery: Delivery
) -> None:
    policy = Policy(duplicates_topic="again", delivery=delivery)
    store = opened(kind, tmp_path / "db", 14)
    store.begin_input("first")
    remember(store, policy, ORDERS, seen_ms(0))
    store.begin_input("second")
    _, classifier = make_classifier(store, policy)
    records = [record(number) for number in ORDERS]
    verdict = classifier.classify(records, classifier.identify(records), seen_ms(0))
    assert not verdict.passed.any()
    assert (verdict.duplicates, verdict.redelivered) == (len(ORDERS), 0)
    assert {header for each in verdict.routed for header in each.headers if header[1] == b"unknown"}
    store.close()
