"""The size of a stream follows from its traffic and the measured constants."""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_crds.quantity import GIB, MIB
from dedupe_local.sizing.constants import MESSAGES_BY_VALUE_BYTES, VALUE_BYTES, Measured, measured
from dedupe_local.sizing.rocksdb import (
    Traffic,
    held_share,
    ids_of_bytes,
    rate_of_ids,
    round_partitions,
    size,
    speed,
)

MEASURED = Measured(
    source="a test",
    ids=100_000_000,
    messages_per_cpu_second=200_000,
    messages_per_second=150_000,
    bytes_per_id=30.0,
    write_amplification=4.0,
    memory_base_bytes=200 * MIB,
    memory_bytes_per_id=2.0,
    start_seconds=2.0,
    rebuild_per_second=250_000,
)
HOUR = timedelta(hours=1)
BUSY = Traffic(messages_per_second=1_000_000, window=HOUR, duplicates=0.1)


def test_ids_are_the_messages_of_the_window_without_duplicates() -> None:
    assert size(BUSY, MEASURED).ids == 3_240_000_000


def test_a_short_window_is_divided_by_speed() -> None:
    found = size(replace(BUSY, window=timedelta(minutes=1)), MEASURED)
    assert (found.partitions_for_speed, found.partitions_for_rebuild) == (14, 1)
    assert found.partitions == 16


def test_a_long_window_is_divided_so_that_a_rebuild_is_in_time() -> None:
    found = size(replace(BUSY, window=24 * HOUR), MEASURED)
    assert found.partitions_for_rebuild == 208
    assert found.partitions == 208
    assert found.rebuild_seconds <= 1800


def test_cores_have_the_headroom() -> None:
    found = size(BUSY, MEASURED)
    assert found.cores == 10.0
    assert found.worker_cores == pytest.approx(10.0 / found.partitions)


def test_the_measured_sizes_of_values_have_their_measured_speeds() -> None:
    """The table is that of the page, and a straight line meets its points within 5 %."""
    page = (Path(__file__).parents[4] / "docs/performance.md").read_text()
    table = page.partition("**Throughput: medians for each size of values**")[2]
    rows = re.findall(
        r"^\| ([\d,]+) \| [\d,]+ \| \d+ \| [\d,]+ \| ([\d,]+) \|", table, re.MULTILINE
    )
    found = {int(size.replace(",", "")): int(rate.replace(",", "")) for size, rate in rows}
    assert found == MESSAGES_BY_VALUE_BYTES
    at_512 = MESSAGES_BY_VALUE_BYTES[VALUE_BYTES]
    for value_bytes, rate in MESSAGES_BY_VALUE_BYTES.items():
        assert speed(value_bytes, MEASURED).cost == pytest.approx(at_512 / rate, rel=0.05)


def test_values_of_512_bytes_have_the_measured_speeds() -> None:
    found = speed(512, MEASURED)
    assert found.messages_per_second == 150_000
    assert found.rebuild_per_second == pytest.approx(250_000)
    assert speed(0, MEASURED).rebuild_per_second == pytest.approx(250_000)


@given(st.integers(0, 1 << 30))
def test_a_larger_value_is_never_faster(value_bytes: int) -> None:
    one, other = speed(value_bytes, MEASURED), speed(value_bytes + 1, MEASURED)
    assert one.messages_per_second > other.messages_per_second > 0
    assert one.rebuild_per_second >= other.rebuild_per_second > 0


def test_a_store_has_room_for_the_generation_that_is_given_up_next() -> None:
    found = size(replace(BUSY, partitions=10), MEASURED)
    assert found.worker_ids == 388_800_000
    assert found.store_bytes == 30 * 388_800_000
    assert 1.25 * found.store_bytes <= found.max_bytes < 1.25 * found.store_bytes + GIB


def test_memory_is_a_base_and_the_filter() -> None:
    found = size(replace(BUSY, partitions=10), MEASURED)
    needed = 1.25 * (200 * MIB + 2 * 388_800_000)
    assert needed <= found.worker_memory_bytes < needed + 16 * MIB


def test_a_volume_with_snapshots_has_room_for_a_checkpoint() -> None:
    without, with_them = size(BUSY, MEASURED), size(replace(BUSY, snapshots=True), MEASURED)
    assert without.max_bytes * 1.25 <= without.volume_bytes < without.max_bytes * 1.25 + GIB
    assert with_them.max_bytes * 2.25 <= with_them.volume_bytes
    assert with_them.snapshot_new_bytes_per_day == 900_000 * 86_400 * 120


def test_the_network_carries_ids_and_values() -> None:
    found = size(replace(BUSY, id_bytes=36, value_bytes=954), MEASURED)
    assert found.in_bytes_per_second == 1e9
    assert found.out_bytes_per_second == pytest.approx(9e8)


@given(
    rate=st.floats(0.01, 1e7),
    hours=st.integers(1, 24 * 90),
    snapshots=st.booleans(),
)
def test_what_is_recommended_is_enough(rate: float, hours: int, *, snapshots: bool) -> None:
    traffic = Traffic(messages_per_second=rate, window=hours * HOUR, snapshots=snapshots)
    found = size(traffic, MEASURED)
    peak = rate * traffic.headroom
    assert found.partitions * MEASURED.messages_per_second >= peak * (1 - 1e-9)
    assert found.rebuild_seconds <= traffic.rebuild_within.total_seconds() + 1
    at_least = found.ids - 1  # which were rounded up
    assert found.partitions * found.worker_ids >= at_least * held_share() - 1
    assert found.max_bytes >= found.store_bytes
    assert 4 * found.volume_bytes >= (9 if snapshots else 5) * found.max_bytes


@given(ids=st.floats(1e3, 1e13), duplicates=st.floats(0, 0.9))
def test_a_rate_is_found_from_its_ids(ids: float, duplicates: float) -> None:
    rate = rate_of_ids(ids, HOUR, duplicates)
    traffic = Traffic(messages_per_second=rate, window=HOUR, duplicates=duplicates)
    assert size(traffic, MEASURED).ids == pytest.approx(ids, rel=1e-6, abs=2)


def test_a_rate_is_found_from_what_is_stored() -> None:
    ids = ids_of_bytes(1.5e12, MEASURED)
    traffic = Traffic(messages_per_second=rate_of_ids(ids, HOUR, 0.0), window=HOUR, duplicates=0.0)
    assert size(traffic, MEASURED).stores_bytes == pytest.approx(1.5e12, rel=1e-6)


@given(st.integers(1, 100_000))
def test_partitions_are_rounded_up_and_not_far(wanted: int) -> None:
    found = round_partitions(wanted)
    assert wanted <= found < max(2 * wanted, wanted + 8)


def test_there_are_constants() -> None:
    assert measured().ids > 0
