"""Speed at which one core fills stores with past ids.

`python -m benchmarks.cases.bootstrap IDS` generates that many ids (canonical UUIDs of version 4, over 20 days) as CSV,
as Parquet and in the format that `dedupe-pipeline bootstrap` writes. It fills a store from each, and prints ids per
second of CPU, which with one thread is per core, and per second of the clock.
"""

import json
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from dedupe_crds.spec.topics import IdSource
from dedupe_worker.bootstrap.files import FileSource
from dedupe_worker.bootstrap.job import Job, Target
from dedupe_worker.bootstrap.source import Columns
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.state_dir import Identity, StateDirectory

_DAY_MS = 86_400_000
_BATCH = 500_000
_BOUNDS = Bounds(max_bytes=64 << 30, max_age=timedelta(days=28), generations=5)


def main(count: int) -> None:
    """Print a line of JSON for each kind of source."""
    # One core: the work of Arrow's own threads would count as this thread's.
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with TemporaryDirectory(dir=Path.cwd()) as directory:
        root = Path(directory)
        _write_sources(root, count)
        for kind in ("csv", "parquet", "sorted"):
            figures = _measure(root, root / ("ids.csv" if kind == "csv" else f"{kind}.parquet"))
            sys.stdout.write(json.dumps({"source": kind, "ids": count, **figures}) + "\n")


def _write_sources(root: Path, count: int) -> None:
    rng = np.random.default_rng(1)
    binary = rng.bytes(16 * count)
    seen = int(time.time() * 1000) - rng.integers(0, 20 * _DAY_MS, count)
    schema = pa.schema({"id": pa.string(), "time": pa.int64()})
    with (
        parquet.ParquetWriter(root / "parquet.parquet", schema) as as_parquet,
        csv.CSVWriter(root / "ids.csv", schema) as as_csv,
    ):
        for batch in _text_batches(binary, seen, schema):
            as_parquet.write(batch)
            as_csv.write(batch)
    order = np.argsort(np.frombuffer(binary, "S16"))
    ids = np.frombuffer(binary, "V16")[order].tolist()
    ready = {"id16": pa.array(ids, pa.binary()), "seen_ms": seen[order]}
    parquet.write_table(pa.table(ready), root / "sorted.parquet")


def _text_batches(
    binary: bytes, seen: "np.ndarray[Any, Any]", schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(seen), _BATCH):
        digits = binary[16 * start : 16 * (start + _BATCH)].hex()
        texts = [digits[place : place + 32] for place in range(0, len(digits), 32)]
        ids = [f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}" for t in texts]
        yield pa.record_batch([ids, seen[start : start + _BATCH]], schema=schema)


def _measure(root: Path, file: Path) -> dict[str, int]:
    state = StateDirectory(root / f"state-{file.name}")
    identity = Identity(stream="a/b", partition=0, input_topic_id="i", output_topic_id="o")
    source = FileSource(
        file,
        stream="a/b",
        columns=Columns(),
        id_source=IdSource.model_validate({"from": "Key"}),
        wanted=frozenset([0]),
        count=1,
        placement=None,
    )
    target = Target(partition=0, state=state, identity=identity, output_position=0)
    cpu, clock = time.process_time(), time.perf_counter()
    work = root / f"work-{file.name}"
    summary = Job(source, [target], _BOUNDS, work, before_ms=None, on_progress=lambda _: None).run()
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    ids = summary.stores[0].ids
    size = sum(f.stat().st_size for f in state.database.iterdir())
    return {
        "ids_per_cpu_second": round(ids / cpu),
        "ids_per_second": round(ids / clock),
        "bytes_per_id": round(size / ids),
    }


if __name__ == "__main__":
    main(int(sys.argv[1]))
