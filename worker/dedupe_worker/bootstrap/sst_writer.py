"""Write RocksDB's own files from sorted ids, and build a store from the files.

A generation of the past is a column family named b00000001, b00000002, … in the order of age, which sorts before the
worker's own g…; the first g… is there, empty, so that the ids that the worker adds do not make ids of the past
last longer.
"""

import os
import shutil
from collections import deque
from collections.abc import Sequence
from itertools import repeat
from pathlib import Path
from typing import Final

import numpy as np
from pydantic import BaseModel, ConfigDict
from rocksdict import IngestExternalFileOptions, Options, Rdict, SstFileWriter, WriteOptions

from dedupe_worker.bootstrap.generation_cutoffs import GenerationCutoffs
from dedupe_worker.errors import store_errors
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.external_sort import Entries, id_bytes
from dedupe_worker.store.metadata import (
    METADATA_KEY,
    MORE_KEY,
    StoreMetadata,
    encode_metadata,
    encode_more,
)
from dedupe_worker.store.rocksdb_options import TableOptions, table_options
from dedupe_worker.values import UNKNOWN_OWNER

FIRST_GENERATION: Final = "g00000001"

_BLOCK_CACHE_BYTES: Final = 8 << 20  # of an option that files don't depend on


class SstFile(BaseModel):
    """One file of ids of one generation, with its first and last time seen."""

    model_config = ConfigDict(frozen=True)

    file: str
    generation: int
    ids: int
    first_seen_ms: int
    last_seen_ms: int


def write_sst_files(
    directory: Path, index: int, entries: Entries, cuts: GenerationCutoffs, bounds: Bounds
) -> list[SstFile]:
    """Write the sorted ids of one range to a file for each generation."""
    generations = cuts.generations(entries)
    tables = []
    for generation in range(len(cuts.starts_ms)):
        chosen = entries[generations == generation]
        if not len(chosen):
            continue
        name = f"{generation:02d}-{index:06d}.sst"
        with store_errors(f"writing {directory / name}"):
            writer = SstFileWriter(_options(bounds))
            writer.open(str(directory / name))
            # A loop in C: 0.25 us an id.
            deque(map(writer.__setitem__, id_bytes(chosen["id"]), repeat(UNKNOWN_OWNER)), maxlen=0)
            writer.finish()
        tables.append(
            SstFile(
                file=name,
                generation=generation,
                ids=len(chosen),
                first_seen_ms=int(np.min(chosen["position"])),
                last_seen_ms=int(np.max(chosen["position"])),
            )
        )
    return tables


def build_store(
    path: Path,
    tables: Sequence[SstFile],
    directory: Path,
    bounds: Bounds,
    *,
    output_position: int,
    truncated: bool,
    aged_ms: int,
) -> None:
    """Build a store at `path` from the files in `directory`; the files stay.

    A store that is there is replaced. Its output position is `output_position`: the worker reads the output from there
    on. `aged_ms` is the time up to which the ids have aged, Unix milliseconds. Raises DiskFull or StoreFailed.
    """
    shutil.rmtree(path, ignore_errors=True)
    numbers = sorted({table.generation for table in tables})
    with store_errors(f"building the store {path}"):
        database = Rdict(str(path), _options(bounds))
        try:
            for number, generation in enumerate(numbers, start=1):
                of_generation = [table for table in tables if table.generation == generation]
                metadata = StoreMetadata(
                    output_position=output_position,
                    input_offset=-1,
                    keys=sum(table.ids for table in of_generation),
                    first_seen_ms=min(table.first_seen_ms for table in of_generation),
                    last_seen_ms=max(table.last_seen_ms for table in of_generation),
                    truncated=truncated,
                    newest_ms=max(table.last_seen_ms for table in of_generation),
                    aged_ms=aged_ms,
                )
                files = [directory / table.file for table in of_generation]
                _add_generation(database, f"b{number:08d}", files, metadata, bounds)
            database.create_column_family(FIRST_GENERATION, _options(bounds)).close()
        finally:
            database.close()


def _add_generation(
    database: Rdict, name: str, files: Sequence[Path], metadata: StoreMetadata, bounds: Bounds
) -> None:
    family = database.create_column_family(name, _options(bounds))
    try:
        moved = IngestExternalFileOptions()
        moved.set_move_files(True)
        family.ingest_external_file([str(_second_name(file)) for file in files], moved)
        unlogged = WriteOptions()
        unlogged.disable_wal = True  # type: ignore[method-assign,assignment] # the stub calls the property a method
        family.set_write_options(unlogged)
        family[METADATA_KEY] = encode_metadata(metadata)
        family[MORE_KEY] = encode_more(metadata)
        family.flush()
    finally:
        family.close()


def _second_name(file: Path) -> Path:
    """Return a second name for RocksDB to move; the first stays for a retry."""
    second = file.with_suffix(".ingest")
    second.unlink(missing_ok=True)
    try:
        os.link(file, second)
    except OSError:  # a file system without hard links
        shutil.copyfile(file, second)
    return second


def _options(bounds: Bounds) -> Options:
    return table_options(
        TableOptions(generation_bytes=bounds.generation_bytes, block_cache_bytes=_BLOCK_CACHE_BYTES)
    )
