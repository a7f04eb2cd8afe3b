"""RocksDB's options for a generation, each for a reason that was measured (see docs/performance.md)."""

from dataclasses import dataclass
from typing import Final

from rocksdict import DBCompressionType, Options

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """What the options depend on, in bytes."""

    generation_bytes: int
    block_cache_bytes: int


def table_options(sizes: TableOptions) -> Options:
    """Options of the database and of each column family.

    The sizes of memtable and levels follow the generation's, so that what a compaction holds twice while it runs
    stays small beside the window's bound.
    """
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    # A Bloom filter that lookups use whichever way the database is opened, and a filter of whole keys for the
    # memtable. (A filter of BlockBasedOptions is not used by a default column family that is opened again.)
    options.optimize_for_point_lookup(max(1, sizes.block_cache_bytes // _MIB))
    # A small memtable keeps sorted inserts in the processor's cache: 0.4 us a key instead of 0.9 at 64 MiB.
    memtable_bytes = _clamp(sizes.generation_bytes // 32, 64 * _KIB, 8 * _MIB)
    options.set_write_buffer_size(memtable_bytes)
    # Files wait in level 0 to be compacted all at once, and stand twice while they are: a writer that is faster
    # than the compaction waits before they are a large part of the window. The lower number is RocksDB's default.
    waiting_files = _clamp(sizes.generation_bytes // 6 // memtable_bytes, 6, 36)
    options.set_level_zero_slowdown_writes_trigger(min(20, waiting_files))
    options.set_level_zero_stop_writes_trigger(waiting_files)
    options.set_target_file_size_base(_clamp(sizes.generation_bytes // 32, 256 * _KIB, 32 * _MIB))
    options.set_max_bytes_for_level_base(_clamp(sizes.generation_bytes // 8, _MIB, 256 * _MIB))
    # Ids are random: compression would cost time and save next to nothing.
    options.set_compression_type(DBCompressionType.none())
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    # These take room on the disk beside the ids.
    options.set_max_log_file_size(_clamp(sizes.generation_bytes // 64, 64 * _KIB, _MIB))
    options.set_max_manifest_file_size(_clamp(sizes.generation_bytes // 64, 64 * _KIB, _MIB))
    options.enable_statistics()
    return options


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))
