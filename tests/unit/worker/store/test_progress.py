"""Long steps of a store: the watchdog sees that they get on, however long the whole takes."""

import errno
import os
import zlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dedupe_crds.manifest import parse_manifest
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import WorkerConfig
from dedupe_worker.store import bloom_filter_file, column_families, generation, rocksdb_options
from dedupe_worker.store import progress as progress_module
from dedupe_worker.store.checkpoint import restore_from_checkpoint
from dedupe_worker.store.column_families import UNTRUSTED
from dedupe_worker.store.inverse_bloom import segments, table, table_state
from dedupe_worker.store.inverse_bloom.store import InverseBloomStore
from dedupe_worker.store.state_dir import Identity, StateDirectory
from tests.unit.crds.manifests import changed
from tests.unit.worker.still_clock import StillClock
from tests.unit.worker.stores import count_known, random_ids, remember

REPOSITORY = Path(__file__).parents[4]
IDS = 20_000
SLOW_SECONDS = 30.0
IDENTITY = Identity(stream="shop/orders", partition=0, input_topic_id="in", output_topic_id="out")


class Slow:
    """A worker on a clock that each piece of work moves on by half a minute."""

    def __init__(self, directory: Path, **store: object) -> None:
        self.clock = StillClock()
        self.state = StateDirectory(directory)
        spec = {"metadata.namespace": "shop", **({"spec.store": store} if store else {})}
        config = WorkerConfig(
            stream=parse_manifest(changed(spec), "test"),
            partition=0,
            state=self.state,
            properties={},
        )
        self.factory = ComponentFactory(config, self.clock)
        self.ages: list[float] = []
        self.shown: list[tuple[str, int, int]] = []

    def work(self) -> None:
        """Take half a minute for a piece, as a slow disk does."""
        status = self.factory.worker_state.reconcile
        if status:
            self.shown.append((status.reason, status.records, status.remaining))
        self.clock.sleep(SLOW_SECONDS)
        self.ages.append(self.factory.worker_state.heartbeat_age_seconds)

    def after_work(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def slow(*given: Any, **named: Any) -> Any:  # noqa: ANN401 (of any function)
            self.work()
            return real(*given, **named)

        return slow

    def fill(self, count: int = IDS) -> None:
        store = self.factory.make_store()
        remember(store, random_ids(1, count), position=count)
        store.close()

    def assert_gets_on(self, pieces: int) -> None:
        """Assert that it took long, and that no heartbeat was late."""
        assert len(self.ages) >= pieces
        assert len(self.ages) * SLOW_SECONDS > 240, "the watchdog would not have waited"
        assert max(self.ages) <= 3 * SLOW_SECONDS


@pytest.fixture
def slow(tmp_path: Path) -> Slow:
    return Slow(tmp_path)


def read_slowly(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    real = generation.packed_keys

    def packed_keys(*given: Any) -> Iterator[bytes]:  # noqa: ANN401 (as the real one's)
        for piece in real(*given):
            slow.work()
            yield piece

    monkeypatch.setattr(generation, "packed_keys", packed_keys)
    monkeypatch.setattr(generation, "_REFILL_KEYS", 1_000)


def test_reading_every_id_of_a_store_that_is_not_trusted(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow.fill()
    (slow.state.database / UNTRUSTED).touch()
    slow.ages.clear()
    read_slowly(slow, monkeypatch)
    store = slow.factory.make_store()
    slow.assert_gets_on(IDS // 1_000)
    assert slow.shown[-1] == ("ReadingIds", 19_000, 1_000)
    store.close()


def test_loading_filters_that_are_not_in_the_page_cache(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_families, "_READ_AT_OPENING_IDS", 0)
    monkeypatch.setattr(bloom_filter_file, "_PIECE_WORDS", 1_000)
    slow.fill()
    crc = slow.after_work(zlib.crc32)
    monkeypatch.setattr(bloom_filter_file, "zlib", type("", (), {"crc32": staticmethod(crc)}))
    store = slow.factory.make_store()
    slow.assert_gets_on(20)
    assert slow.shown[-1][0] == "LoadingFilters"
    assert not store.refill(0), "the filter was loaded"
    assert count_known(store, random_ids(1, IDS)) == IDS
    store.close()


def test_copying_a_checkpoint_to_another_device(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow.fill()
    store = slow.factory.make_store()
    slow.state.checkpoints.mkdir()
    from dedupe_worker.store.checkpoint import make_checkpoint  # noqa: PLC0415

    make_checkpoint(slow.state, IDENTITY, store, slow.clock.now())
    store.close()

    def other_device(*_: object) -> None:
        raise OSError(errno.EXDEV, "other device")

    monkeypatch.setattr(os, "link", other_device)
    monkeypatch.setattr(progress_module, "_PIECE_BYTES", 10_000)
    reports: list[tuple[str, int, int]] = []
    output = OffsetRange(0, IDS)
    report = lambda *given: reports.append(given)  # noqa: E731 (a list)
    assert restore_from_checkpoint(slow.state, IDENTITY, output, report)
    files = list(slow.state.database.iterdir())
    assert len(reports) >= sum(file.stat().st_size for file in files) // 10_000
    assert {step for step, _, _ in reports} == {"CopyingCheckpoint"}
    store = slow.factory.make_store()
    assert count_known(store, random_ids(1, IDS)) == IDS
    store.close()


def test_loading_and_writing_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = 5 * segments.SEGMENT_SLOTS
    slow = Slow(tmp_path, type="InverseBloom", inverseBloom={"slots": slots})
    monkeypatch.setattr(table_state, "save_segment", slow.after_work(segments.save_segment))
    slow.fill()
    monkeypatch.setattr(table_state, "load_segment", slow.after_work(segments.load_segment))
    store = slow.factory.make_store()
    slow.assert_gets_on(10)
    assert slow.shown[-1][0] == "LoadingTable"
    store.close()


def test_forgetting_the_owners_of_a_table(tmp_path: Path) -> None:
    """Of an earlier input topic, in a table of many slots: one report for each piece."""
    slots = segments.SEGMENT_SLOTS
    slow = Slow(tmp_path, type="InverseBloom", inverseBloom={"slots": slots})
    slow.fill()
    reports: list[tuple[str, int, int]] = []
    store = InverseBloomStore(
        slow.state.database,
        slow.factory.config.bounds,
        slots=slots,
        value_bytes=8,
        clock=slow.clock,
        report=lambda *given: reports.append(given),
    )
    store.begin_input("in")
    reports.clear()
    store.begin_input("new")
    assert reports.count(("WritingTable", 0, 1)) > slots // table._AT_ONCE  # noqa: SLF001 (the size of a piece)
    store.close()


def test_saving_filters(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the close, where a sealed generation's is saved, and after a filter was read again."""
    monkeypatch.setattr(column_families, "_READ_AT_OPENING_IDS", 0)
    monkeypatch.setattr(bloom_filter_file, "_PIECE_WORDS", 1_000)
    crc = slow.after_work(zlib.crc32)
    monkeypatch.setattr(bloom_filter_file, "zlib", type("", (), {"crc32": staticmethod(crc)}))
    slow.fill()
    slow.assert_gets_on(20)
    store = slow.factory.make_store()
    remember(store, random_ids(2, 10), position=IDS + 10)
    slow.ages.clear()
    store.age(int(timedelta(days=3650) / timedelta(milliseconds=1)))  # seals
    slow.assert_gets_on(9)
    store.close()
    for saved in slow.state.database.glob("*.prefilter"):
        saved.unlink()
    store = slow.factory.make_store()
    slow.ages.clear()
    while store.refill(1):
        pass
    slow.assert_gets_on(9)
    store.close()


def test_opening_many_files_on_a_slow_disk(slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rocksdb_options, "_MOST_RUNS", 100)
    store = slow.factory.make_store()
    for number in range(12):
        remember(store, random_ids(number, 100), position=100 * (number + 1))
        store.flush()
    store.close()
    files = len(list(slow.state.database.glob("*.sst")))
    real = Path.open

    def open_slowly(path: Path, *given: Any, **named: Any) -> Any:  # noqa: ANN401 (as the real one's)
        if path.suffix == ".sst":
            slow.work()
        return real(path, *given, **named)

    monkeypatch.setattr(Path, "open", open_slowly)
    slow.factory.make_store().close()
    slow.assert_gets_on(files)
    assert slow.shown == [("OpeningFiles", done, files - done) for done in range(files)]


def test_each_step_is_documented() -> None:
    text = (REPOSITORY / "docs" / "operations.md").read_text()
    assert [step for step in progress_module.Step if f"`{step}`" not in text] == []
