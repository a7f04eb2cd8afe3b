"""A table that does not fit is refused before it takes the machine down."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_crds.quantity import GIB, MIB
from dedupe_crds.spec.inverse_bloom import InverseBloom
from dedupe_kafka.errors import InvalidConfig
from dedupe_worker.store.inverse_bloom import capacity as room
from dedupe_worker.store.inverse_bloom.capacity import (
    WORKERS_HERE,
    check_capacity,
    check_table,
    memory_limit,
)
from dedupe_worker.store.inverse_bloom.sizing import slots_for
from dedupe_worker.store.inverse_bloom.store import InverseBloomStore
from tests.unit.worker.store.inverse_bloom.scene import BOUNDS, open_store
from tests.unit.worker.stores import random_ids, remember


@pytest.fixture
def limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that bounds this process's memory, as a container has it."""
    path = tmp_path / "memory.max"
    monkeypatch.setattr(room, "_LIMITS", (tmp_path / "none", path))
    return path


@pytest.fixture
def volume(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Says how large the file system of a volume is; memory is not to be the reason."""
    monkeypatch.setattr(room, "memory_limit", lambda: 1 << 60)

    def has(total: int) -> None:
        usage = shutil.disk_usage("/")._replace(total=total)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    return has


def test_a_table_that_fits_is_taken(tmp_path: Path, limit: Path) -> None:
    limit.write_text(f"{GIB}\n")
    check_capacity(tmp_path, slots=900 * MIB // 24, value_bytes=8)


def test_a_table_larger_than_memory_is_refused(tmp_path: Path, limit: Path) -> None:
    limit.write_text(f"{GIB}\n")
    with pytest.raises(InvalidConfig, match=r"takes 1000Mi, .*1Gi of memory: give it more"):
        check_capacity(tmp_path, slots=1000 * MIB // 24, value_bytes=8)
    with pytest.raises(InvalidConfig, match=r"takes 1275Mi"):
        check_capacity(tmp_path, slots=900 * MIB // 24, value_bytes=18)


def test_the_table_that_is_replaced_counts_too(tmp_path: Path, limit: Path) -> None:
    store = open_store(tmp_path, slots=4_000_000)  # 92 MiB
    remember(store, random_ids(1, 10), position=10)
    store.close()
    limit.write_text(str(250 * MIB))
    check_capacity(tmp_path, slots=4_000_000, value_bytes=8)
    check_capacity(tmp_path, slots=2_500_000, value_bytes=8)
    with pytest.raises(InvalidConfig, match="and 1 that it takes the place of"):
        check_capacity(tmp_path, slots=3_500_000, value_bytes=8)


def test_a_container_without_a_bound_has_the_machine_s_memory(limit: Path) -> None:
    limit.write_text("max\n")
    assert memory_limit() > GIB
    limit.write_text(str(200 * MIB))
    assert memory_limit() == 200 * MIB


def test_a_table_larger_than_its_volume_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "memory_limit", lambda: 1 << 60)
    with pytest.raises(InvalidConfig, match=r"of a volume, .*spec.storage.size"):
        check_capacity(tmp_path, slots=1 << 32, value_bytes=3_000)


def test_what_a_file_system_takes_of_a_claim_of_the_advised_size_is_no_reason_to_refuse(
    tmp_path: Path, volume: Callable[[int], None]
) -> None:
    slots = slots_for(3_600_000, 0.9)  # `dedupe size` advises 992Mi for it
    volume(1_004_531_712)  # what ext4 leaves of them
    check_capacity(tmp_path, slots=slots, value_bytes=8)
    volume(round(1.09 * slots * 24))
    with pytest.raises(InvalidConfig, match=r"needs 861Mi of a volume, and there are 853Mi"):
        check_capacity(tmp_path, slots=slots, value_bytes=8)


def test_a_small_table_needs_room_for_a_segment_beside_it(
    tmp_path: Path, volume: Callable[[int], None]
) -> None:
    volume(32 * MIB)
    check_capacity(tmp_path, slots=20 * MIB // 24, value_bytes=8)
    with pytest.raises(InvalidConfig, match="needs 33Mi of a volume"):
        check_capacity(tmp_path, slots=21 * MIB // 24, value_bytes=8)


def test_workers_of_one_machine_share_its_memory_and_its_disk(
    tmp_path: Path, limit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit.write_text(f"{GIB}\n")
    slots = 150 * MIB // 24
    monkeypatch.setenv(WORKERS_HERE, "4")
    check_capacity(tmp_path, slots=slots, value_bytes=8)
    monkeypatch.setenv(WORKERS_HERE, "5")
    with pytest.raises(InvalidConfig, match="205Mi of memory as one of 5 on this machine"):
        check_capacity(tmp_path, slots=slots, value_bytes=8)
    limit.write_text("max\n")
    usage = shutil.disk_usage("/")._replace(total=GIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    check_capacity(tmp_path, slots=slots, value_bytes=8)
    monkeypatch.setenv(WORKERS_HERE, "7")
    with pytest.raises(InvalidConfig, match="147Mi as one of 7 on this machine"):
        check_capacity(tmp_path, slots=slots, value_bytes=8)


@given(st.integers(1, 10**6), st.floats(0.01, 0.999))
def test_the_manifest_s_bound_of_a_target_is_never_more_than_its_slots(
    messages: int, retain: float
) -> None:
    bound = InverseBloom(messages=messages, retain=retain).least_bytes(1)
    slots = slots_for(messages, retain)
    assert bound <= slots
    if retain >= 0.5 and messages >= 1000:
        assert bound >= 0.92 * slots


def test_more_slots_than_a_table_has_are_refused(tmp_path: Path) -> None:
    wanted = InverseBloom(messages=4_500_000_000, retain=0.4)
    with pytest.raises(InvalidConfig, match="4,294,967,296 at most"):
        check_table(tmp_path, wanted, 8)


def test_a_target_becomes_a_table(tmp_path: Path) -> None:
    slots = check_table(tmp_path, InverseBloom(messages=2_000, retain=0.9), 8)
    store = InverseBloomStore(tmp_path, BOUNDS, slots=slots, value_bytes=8)
    assert store.generations()[0].size_bytes == 18_983 * 24
    store.close()
