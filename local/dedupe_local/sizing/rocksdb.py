"""The size of a stream with RocksDB stores, from its traffic.

The command calls `size`; `report` shows the result with its formulas. Pure: no I/O.
"""

from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import Final

from dedupe_crds.quantity import GIB, MIB
from dedupe_crds.spec.store import Window
from dedupe_local.sizing.constants import VALUE_BYTES, Measured, cost_per_byte

GENERATIONS: Final[int] = Window().generations
"""The default number of generations of a window; each is dropped as a whole."""

MARGIN: Final = 1.25
"""Factor on the memory and disk needed: a bound that is reached costs ids, or kills the worker."""

VOLUME: Final = 1.25
"""Factor on the window's bound, for files that RocksDB holds twice while it compacts: the manifest's rule."""

VOLUME_WITH_CHECKPOINT: Final = 2.25
"""The same factor if the volume also holds a checkpoint."""

RECORD_BYTES: Final = 10
"""Approximate size of a record in Kafka's batches without its key, value and headers."""

DAY: Final = timedelta(days=1)

_SMALLEST_WINDOW: Final = 16 * MIB  # the least that a manifest allows


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The traffic of a stream, and the limits that it must keep.

    `messages_per_second` is the average over the window, `duplicates` the share of duplicates in it, `headroom` the
    capacity of the workers as a multiple of that average. `id_bytes` and `value_bytes` are those of a message in Kafka:
    in the store an id takes 16 bytes and its owner 8, whatever its length. `rebuild_within` is the time limit for the
    rebuild of a lost store from the output topic. `partitions` is None if the number is free.
    """

    messages_per_second: float
    window: timedelta
    id_bytes: int = 16
    value_bytes: int = 512
    duplicates: float = 0.006
    headroom: float = 2.0
    rebuild_within: timedelta = timedelta(minutes=30)
    snapshots: bool = False
    partitions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The resources of a stream, in bytes, cores and seconds.

    `worker_…` and `store_…` are of one partition, the others of the stream. `ids` counts the ids within the window;
    `worker_ids` the ids in one store, including the generation that is dropped next.
    """

    ids: int
    partitions_for_speed: int
    partitions_for_rebuild: int
    partitions: int
    cores: float
    worker_cores: float
    worker_ids: int
    worker_memory_bytes: int
    store_bytes: int
    max_bytes: int
    volume_bytes: int
    start_seconds: float
    rebuild_seconds: float
    in_bytes_per_second: float
    out_bytes_per_second: float
    output_topic_bytes: int
    snapshot_new_bytes_per_day: int

    @property
    def memory_bytes(self) -> int:
        """Return the memory of all workers."""
        return self.partitions * self.worker_memory_bytes

    @property
    def stores_bytes(self) -> int:
        """Return the size of all stores."""
        return self.partitions * self.store_bytes

    @property
    def volumes_bytes(self) -> int:
        """Return the size of all volumes."""
        return self.partitions * self.volume_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """The speed of one worker with the values of a stream.

    `cost` is the CPU time of a message, as a multiple of that with values of 512 B.
    """

    cost: float
    messages_per_second: float
    messages_per_cpu_second: float
    rebuild_per_second: float


def speed(value_bytes: int, measured: Measured) -> Speed:
    """Return a worker's speed with values of a size; the constants are for 512 B."""
    more = cost_per_byte() * (value_bytes - VALUE_BYTES)
    # A rebuild reads values and writes none: the bytes cost it at most what they cost the worker. It is not taken to
    # be faster than measured.
    read_again = 1 / measured.rebuild_per_second + max(0.0, more) / measured.messages_per_cpu_second
    return Speed(
        cost=1 + more,
        messages_per_second=measured.messages_per_second / (1 + more),
        messages_per_cpu_second=measured.messages_per_cpu_second / (1 + more),
        rebuild_per_second=1 / read_again,
    )


def size(traffic: Traffic, measured: Measured) -> Size:
    """Calculate the size. `report.rows` shows each formula with its result."""
    worker = speed(traffic.value_bytes, measured)
    passed_per_second = traffic.messages_per_second * (1 - traffic.duplicates)
    ids = passed_per_second * traffic.window.total_seconds()
    peak = traffic.messages_per_second * traffic.headroom
    rebuilt = worker.rebuild_per_second * traffic.rebuild_within.total_seconds()
    for_speed = ceil(peak / worker.messages_per_second)
    for_rebuild = ceil(ids * held_share() / rebuilt)
    partitions = traffic.partitions or round_partitions(max(for_speed, for_rebuild))
    worker_ids = ceil(ids * held_share() / partitions)
    store_bytes = ceil(worker_ids * measured.bytes_per_id)
    max_bytes = round_bytes(max(_SMALLEST_WINDOW, store_bytes * MARGIN))
    times = VOLUME_WITH_CHECKPOINT if traffic.snapshots else VOLUME
    memory = measured.memory_base_bytes + worker_ids * measured.memory_bytes_per_id
    message_bytes = traffic.id_bytes + traffic.value_bytes + RECORD_BYTES
    out_per_second = passed_per_second * message_bytes
    written = passed_per_second * measured.bytes_per_id * measured.write_amplification
    return Size(
        ids=ceil(ids),
        partitions_for_speed=for_speed,
        partitions_for_rebuild=for_rebuild,
        partitions=partitions,
        cores=peak / worker.messages_per_cpu_second,
        worker_cores=peak / worker.messages_per_cpu_second / partitions,
        worker_ids=worker_ids,
        worker_memory_bytes=round_bytes(memory * MARGIN),
        store_bytes=store_bytes,
        max_bytes=max_bytes,
        volume_bytes=round_bytes(max_bytes * times),
        start_seconds=measured.start_seconds,
        rebuild_seconds=worker_ids / worker.rebuild_per_second,
        in_bytes_per_second=traffic.messages_per_second * message_bytes,
        out_bytes_per_second=out_per_second,
        output_topic_bytes=ceil(out_per_second * traffic.window.total_seconds()),
        snapshot_new_bytes_per_day=ceil(written * DAY.total_seconds()) if traffic.snapshots else 0,
    )


def rate_of_ids(ids: float, window: timedelta, duplicates: float) -> float:
    """Return the messages per second that fill a window with so many ids."""
    return ids / (1 - duplicates) / window.total_seconds()


def ids_of_bytes(stored_bytes: float, measured: Measured) -> float:
    """Return the ids in a window whose stores take so many bytes."""
    return stored_bytes / measured.bytes_per_id / held_share()


def held_share() -> float:
    """Return the ratio of ids in the stores to ids within the window.

    It is above 1, as a generation is dropped as a whole once its newest id is too old.
    """
    return 1 + 1 / GENERATIONS


def round_partitions(wanted: int) -> int:
    """Round up to a power of two, or above 16 to a multiple of 8.

    Such numbers divide well among consumers.

    >>> [round_partitions(wanted) for wanted in (1, 3, 16, 17, 100)]
    [1, 4, 16, 24, 104]
    """
    if wanted > 16:
        return 8 * ceil(wanted / 8)
    return 1 << (wanted - 1).bit_length() if wanted > 1 else 1


def round_bytes(wanted: float) -> int:
    """Round up to a multiple of 16 MiB, or from 4 GiB of 1 GiB.

    >>> round_bytes(17 * MIB) // MIB, round_bytes(5.1 * GIB) // GIB
    (32, 6)
    """
    step = GIB if wanted >= 4 * GIB else 16 * MIB
    return step * ceil(wanted / step)
