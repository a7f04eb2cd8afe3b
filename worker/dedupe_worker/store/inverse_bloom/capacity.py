"""Check that a table fits into this process's memory and its volume.

`store` calls this before a table is created.
"""

import os
import shutil
from pathlib import Path
from typing import Final

from dedupe_crds.quantity import MIB, format_size
from dedupe_crds.spec.inverse_bloom import InverseBloom
from dedupe_kafka.errors import InvalidConfig
from dedupe_worker.errors import store_errors
from dedupe_worker.store.inverse_bloom.segments import SEGMENT_SLOTS, load_manifest
from dedupe_worker.store.inverse_bloom.sizing import MOST_SLOTS, slot_bytes, slots_wanted
from dedupe_worker.store.state_dir import make_directory

_BASE_BYTES: Final = 96 * MIB
"""The least memory of a worker without its store."""

_BESIDE_SHARE: Final = 0.1
"""Share of the table for new segments, before the old ones are deleted.

One segment at least. It is less than a manifest must request, 1.25 times the table: the file system takes 5 % and more
of a volume.
"""

WORKERS_HERE: Final = "DEDUPE_WORKERS_HERE"
"""The environment variable with the number of workers on this machine.

They share its memory and its disk; 1 if it is not set.
"""

_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def check_table(path: Path, wanted: InverseBloom, value_bytes: int) -> int:
    """Return the slots of a table as a manifest configures it.

    Raises InvalidConfig if it is too large for memory or volume.
    """
    slots = slots_wanted(wanted, value_bytes)
    with store_errors("opening the store"):
        make_directory(path)
        check_capacity(path, slots=slots, value_bytes=value_bytes)
    return slots


def check_capacity(directory: Path, *, slots: int, value_bytes: int) -> None:
    """Refuse a table that is too large, together with the tables that it replaces.

    Raises InvalidConfig, StoreCorrupt or OSError.
    """
    wanted = slots * slot_bytes(value_bytes)
    if slots > MOST_SLOTS:
        raise InvalidConfig(
            f"spec.store.inverseBloom requests {slots:,} slots; a table has {MOST_SLOTS:,} at most: use more "
            "partitions, or retain less"
        )
    record = load_manifest(directory)
    before = [t for t in record.tables if t.puts] if record else []
    if before and (before[-1].slots, before[-1].value_bytes) == (slots, value_bytes):
        before.pop()
    held = wanted + sum(each.slots * slot_bytes(each.value_bytes) for each in before)
    beside = f", and {len(before)} that it takes the place of" if before else ""
    workers = workers_here()
    shared = f" as one of {workers} on this machine" if workers > 1 else ""
    limit = memory_limit() // workers
    if held + _BASE_BYTES > limit:
        raise InvalidConfig(
            f"a table of {slots:,} slots takes {size(wanted)}{beside}, {size(held)} with it, and this worker has "
            f"{size(limit)} of memory{shared}: give it more (spec.worker.resources), or ask for less "
            "(spec.store.inverseBloom)"
        )
    volume = shutil.disk_usage(directory).total // workers
    segment = min(wanted, SEGMENT_SLOTS * slot_bytes(value_bytes))
    needed = held + max(segment, round(held * _BESIDE_SHARE))
    if needed > volume:
        raise InvalidConfig(
            f"a table of {slots:,} slots takes {size(wanted)}{beside}, which needs {size(needed)} of a volume, and "
            f"there are {size(volume)}{shared}: give it more (spec.storage.size), or ask for less "
            "(spec.store.inverseBloom)"
        )


def workers_here() -> int:
    """Return how many workers share this machine: 1 in a container."""
    return int(os.environ.get(WORKERS_HERE, "1"))


def memory_limit() -> int:
    """Return the bytes of memory that this process may use.

    The machine's, or the limit of its container.
    """
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _LIMITS:
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # no such hierarchy, or "max"
            continue
    return min(limits)


def size(amount: int) -> str:
    """Return bytes as people read them.

    >>> size(1024), size(5 * MIB), size(3_000_000_000)
    ('1Ki', '5Mi', '2862Mi')
    """
    return format_size(amount if amount < MIB else -(-amount // MIB) * MIB)
