"""RocksDB's options for a generation, each for a measured reason.

See docs/performance.md. `column_families` and the bootstrap use them.
"""

from dataclasses import dataclass
from typing import Final

from rocksdict import (
    DBCompactionStyle,
    DBCompressionType,
    Options,
    Rdict,
    UniversalCompactOptions,
)

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_MOST_RUNS: Final = 24
_NEVER: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """The sizes that the options depend on, in bytes."""

    generation_bytes: int
    block_cache_bytes: int


def table_options(sizes: TableOptions) -> Options:
    """Options of the database and of each column family.

    The sizes of memtable and levels follow the generation's, so that what a compaction holds twice while it runs
    stays small compared with the window's bound.
    """
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    # A Bloom filter that lookups use whichever way the database is opened, and a filter of whole keys for the
    # memtable. (A filter of BlockBasedOptions is not used by a default column family that is opened again.)
    options.optimize_for_point_lookup(max(1, sizes.block_cache_bytes // _MIB))
    # A small memtable keeps sorted inserts in the processor's cache: 0.4 us a key instead of 0.9 at 64 MiB.
    memtable_bytes = _clamp(sizes.generation_bytes // 128, 64 * _KIB, 8 * _MIB)
    options.set_write_buffer_size(memtable_bytes)
    _set_compaction(options, sizes.generation_bytes, memtable_bytes)
    options.set_target_file_size_base(_clamp(sizes.generation_bytes // 32, 256 * _KIB, 32 * _MIB))
    # Ids are random; owners and RocksDB's sequence numbers are not, and they are half of an entry: 36 bytes an id
    # become 26, for 0.05 us. (ZSTD: 25, and 0.4 us more.)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    # These take space on the disk in addition to the ids.
    options.set_max_log_file_size(_clamp(sizes.generation_bytes // 64, 64 * _KIB, _MIB))
    options.set_max_manifest_file_size(_clamp(sizes.generation_bytes // 64, 64 * _KIB, _MIB))
    options.enable_statistics()
    return options


def tune_tables(family: Rdict) -> None:
    """Set what `Options` can't express with a Bloom filter; for files written later.

    A hash index in each block would take 1.2 bytes an id and time to build, for lookups that are rare.
    """
    family.set_options(
        {"block_based_table_factory": "{data_block_index_type=kDataBlockBinarySearch}"}
    )


def _set_compaction(options: Options, generation_bytes: int, memtable_bytes: int) -> None:
    """Choose few merges, since the filter in memory saves most reads of the files.

    Files are merged when there are many, the young ones among themselves: each id is rewritten once or twice, not
    at each level. What is merged stands twice meanwhile, so in a small generation it is fewer; a writer that is
    faster than the merges waits before that is a large part of the window.
    """
    universal = UniversalCompactOptions()
    universal.max_size_amplification_percent = _NEVER
    options.set_compaction_style(DBCompactionStyle.universal())
    options.set_universal_compaction_options(universal)
    runs = _clamp(generation_bytes // 8 // memtable_bytes, 4, _MOST_RUNS)
    options.set_level_zero_file_num_compaction_trigger(runs)
    options.set_level_zero_slowdown_writes_trigger(runs + 8)
    options.set_level_zero_stop_writes_trigger(runs + 16)


def _clamp(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))
