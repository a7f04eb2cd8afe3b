"""What a stream takes, reckoned from its traffic and from what was measured of a worker. No I/O."""

from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import Final

from dedupe_crds.quantity import GIB, MIB
from dedupe_crds.spec.store import Window
from dedupe_local.sizing.constants import Measured

GENERATIONS: Final[int] = Window().generations
"""In which a window is forgotten, by default."""

ROOM: Final = 1.25
"""Times what is needed, of memory and of disk: a bound that is reached costs ids, or the worker."""

VOLUME: Final = 1.25
"""Times the window's bound, for what RocksDB holds twice while it compacts: the manifest's own rule."""

VOLUME_WITH_CHECKPOINT: Final = 2.25
"""The same where a checkpoint lies beside the store."""

RECORD_BYTES: Final = 10
"""Of a record beside its key and value, in Kafka's batches; about, and without headers."""

DAY: Final = timedelta(days=1)

_SMALLEST_WINDOW: Final = 16 * MIB  # that a manifest may have


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What comes and what is promised of it.

    `messages_per_second` is the average over the window, `duplicates` the share of them that repeat one, `headroom`
    what the workers can do over that average. `id_bytes` and `value_bytes` are those of a message in Kafka: in the
    store an id takes 16 bytes and its owner 8, whatever its length. `rebuild_within` is how long a lost store may take
    to come back from the output topic; `partitions` is None where the number is free.
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
    """What it takes. Bytes, cores and seconds; `worker_…` and `store_…` are of one partition, the others of the stream.

    `ids` are those within the window; `worker_ids` those that a store holds of them, with the generation that is given
    up next.
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
        """Of all workers."""
        return self.partitions * self.worker_memory_bytes

    @property
    def stores_bytes(self) -> int:
        """Of all stores."""
        return self.partitions * self.store_bytes

    @property
    def volumes_bytes(self) -> int:
        """Of all volumes."""
        return self.partitions * self.volume_bytes


def size(traffic: Traffic, measured: Measured) -> Size:
    """Reckon. The formulas are in `rows` of size_table.py, which shows each beside its result."""
    passed_per_second = traffic.messages_per_second * (1 - traffic.duplicates)
    ids = passed_per_second * traffic.window.total_seconds()
    peak = traffic.messages_per_second * traffic.headroom
    rebuilt = measured.rebuild_per_second * traffic.rebuild_within.total_seconds()
    for_speed = ceil(peak / measured.messages_per_second)
    for_rebuild = ceil(ids * held_share() / rebuilt)
    partitions = traffic.partitions or round_partitions(max(for_speed, for_rebuild))
    worker_ids = ceil(ids * held_share() / partitions)
    store_bytes = ceil(worker_ids * measured.bytes_per_id)
    max_bytes = round_bytes(max(_SMALLEST_WINDOW, store_bytes * ROOM))
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
        cores=peak / measured.messages_per_cpu_second,
        worker_cores=peak / measured.messages_per_cpu_second / partitions,
        worker_ids=worker_ids,
        worker_memory_bytes=round_bytes(memory * ROOM),
        store_bytes=store_bytes,
        max_bytes=max_bytes,
        volume_bytes=round_bytes(max_bytes * times),
        start_seconds=measured.start_seconds,
        rebuild_seconds=worker_ids / measured.rebuild_per_second,
        in_bytes_per_second=traffic.messages_per_second * message_bytes,
        out_bytes_per_second=out_per_second,
        output_topic_bytes=ceil(out_per_second * traffic.window.total_seconds()),
        snapshot_new_bytes_per_day=ceil(written * DAY.total_seconds()) if traffic.snapshots else 0,
    )


def rate_of_ids(ids: float, window: timedelta, duplicates: float) -> float:
    """Messages a second that leave so many ids in a window."""
    return ids / (1 - duplicates) / window.total_seconds()


def ids_of_bytes(stored_bytes: float, measured: Measured) -> float:
    """Ids of a window whose stores take so many bytes."""
    return stored_bytes / measured.bytes_per_id / held_share()


def held_share() -> float:
    """Ids that stores hold, to those within the window: a generation is given up whole, when its last id is too old."""
    return 1 + 1 / GENERATIONS


def round_partitions(wanted: int) -> int:
    """Up to a power of two, or above 16 to a multiple of 8: numbers that divide among consumers.

    >>> [round_partitions(wanted) for wanted in (1, 3, 16, 17, 100)]
    [1, 4, 16, 24, 104]
    """
    if wanted > 16:
        return 8 * ceil(wanted / 8)
    return 1 << (wanted - 1).bit_length() if wanted > 1 else 1


def round_bytes(wanted: float) -> int:
    """Up to a multiple of 16 MiB; from 4 GiB on, of 1 GiB.

    >>> round_bytes(17 * MIB) // MIB, round_bytes(5.1 * GIB) // GIB
    (32, 6)
    """
    step = GIB if wanted >= 4 * GIB else 16 * MIB
    return step * ceil(wanted / step)
