"""A store with further fields opens in the release before, and one that this wrote opens here again."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from dedupe_worker.store.api import IdStore
from tests.golden import FILES
from tests.golden.stores import open_store, open_table
from tests.support.earlier_release import (
    WITHOUT_FURTHER_FIELDS,
    run_earlier,
    unpack_earlier,
)
from tests.unit.worker.stores import count_known, random_ids, remember

SLOTS: Final = 1 << 15
INPUT: Final = "aW5wdXQtdG9waWMtLS1pZA"
_EARLIER: Final = """
import json, sys
from pathlib import Path
from datetime import timedelta
from dedupe_worker.dedup.window import Window
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.inverse_bloom.store import InverseBloomStore
from dedupe_worker.store.rocksdb import Store

kind, path, packed, position = sys.argv[1:]
packed, position = bytes.fromhex(packed), int(position)
bounds = Bounds(max_bytes=1 << 20, max_age=timedelta(days=28), generations=4)
if kind == "RocksDB":
    store = Store(Path(path), bounds, block_cache_bytes=1 << 20)
else:
    store = InverseBloomStore(Path(path), bounds, slots=1 << 15, value_bytes=8)
known = len(Window(store).admit(packed, [bytes(8)] * (len(packed) // 16)))
found = store.metadata
if position:
    window = Window(store)
    window.admit(packed, [bytes(8)] * (len(packed) // 16))
    window.commit(output_position=position, input_offset=position, seen_ms=1)
store.close()
print(json.dumps([known, found.output_position, found.input_offset, found.keys]))
"""


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = unpack_earlier(WITHOUT_FURTHER_FIELDS, tmp_path_factory.mktemp("earlier") / "tree")
    if tree is None:
        pytest.skip("the history of the repository is not here")
    return tree


def opened(kind: str, path: Path) -> IdStore:
    return open_store(path) if kind == "RocksDB" else open_table(path, SLOTS, 8)


def learn_fields(store: IdStore) -> None:
    """Have the further fields in what is written from now on."""
    store.begin_input(INPUT, unlabelled=INPUT)
    newest = store._generations if hasattr(store, "_generations") else store._tables  # type: ignore[attr-defined]  # noqa: SLF001 (a clock sets it)
    newest[-1].metadata = replace(newest[-1].metadata, aged_ms=7)


def fields(store: IdStore) -> tuple[str, int]:
    assert store.metadata is not None
    return store.metadata.input_topic, store.metadata.aged_ms


@pytest.fixture(params=["RocksDB", "InverseBloom"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def written(kind: str, tmp_path: Path) -> Path:
    """A store of two transactions, the second with further fields."""
    store = opened(kind, tmp_path / "db")
    remember(store, random_ids(1, 100), position=100)
    learn_fields(store)
    remember(store, random_ids(2, 100), position=200)
    store.close()
    return tmp_path / "db"


def test_further_fields_survive_closing_and_opening(kind: str, written: Path) -> None:
    store = opened(kind, written)
    assert fields(store) == (INPUT, 7)
    remember(store, random_ids(3, 10), position=300)
    store.close()
    store = opened(kind, written)
    assert fields(store) == (INPUT, 7)
    store.close()


def test_the_release_before_opens_a_store_with_further_fields(
    kind: str, written: Path, earlier: Path
) -> None:
    ids = random_ids(2, 100)
    known, *stamp = json.loads(run_earlier(earlier, _EARLIER, kind, written, ids.hex(), 0))
    assert stamp == [200, 200, 200]
    assert known >= 95, "an inverse Bloom store may have lost some"
    store = opened(kind, written)
    assert fields(store) == (INPUT, 7), "it has written nothing"
    store.close()


def test_fields_are_unknown_after_the_release_before_has_written(
    kind: str, written: Path, earlier: Path
) -> None:
    """The same position and number of ids is another stamp as well."""
    ids = random_ids(4, 50)
    run_earlier(earlier, _EARLIER, kind, written, ids.hex(), 300)
    store = opened(kind, written)
    assert fields(store) == ("", 0)
    assert count_known(store, random_ids(1, 100) + ids) >= 145
    learn_fields(store)
    remember(store, random_ids(5, 10), position=400)
    store.close()
    store = opened(kind, written)
    assert fields(store) == (INPUT, 7)
    store.close()


def test_a_store_of_the_release_before_has_unknown_fields(kind: str, tmp_path: Path) -> None:
    source = FILES / ("values" if kind == "RocksDB" else "table")
    path = shutil.copytree(source, tmp_path / "db")
    store = open_store(path) if kind == "RocksDB" else open_table(path, 1100, 18)
    assert fields(store) == ("", 0)
    store.close()
