"""Streams with an inverse Bloom store: what may pass twice, and steps for crashes."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import numpy as np
import yaml

from dedupe_ids.extract import pack_id
from dedupe_worker.store.bloom_filter import hash_ids
from dedupe_worker.store.inverse_bloom.table import Table
from tests.support.checker.checker import Verdict, judge
from tests.support.checker.id_sources import key_id
from tests.support.checker.record import Record
from tests.support.crashes.inner_crashes import FaultWorkers
from tests.support.crashes.steps import Crash
from tests.support.processes.processes import WorkerProcess
from tests.support.traffic.streams import TestStream

VARIABLE = "TABLE_CRASH"
MODULE = "tests.support.crashes.table_worker"


class Act(StrEnum):
    """A step in which a table gets to disk.

    When it is reached the n-th time, the process gets SIGKILL.
    """

    SEGMENT_BEGUN = "segment-begun"
    """Half of a segment is written."""
    SEGMENT_WRITTEN = "segment-written"
    """A segment is complete, but no manifest names it."""
    MANIFEST_WRITTEN = "manifest-written"
    """The manifest names the new segments; the replaced segments still exist."""
    SEGMENTS_LINKED = "segments-linked"
    """A checkpoint has all segments, but no manifest."""


@dataclass(frozen=True, slots=True)
class TableCrash:
    """Kill when an act is reached the n-th time, counted from 1."""

    act: Act
    time: int = 1
    lazy: bool = False
    """Few ids get to disk before the worker stops, as in production."""

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables that pass this to a worker."""
        return {VARIABLE: f"{self.act}:{self.time}:{'lazy' if self.lazy else ''}"}

    @classmethod
    def from_environment(cls) -> Self | None:
        """Read it from the worker's environment variables; None if it must not crash."""
        if VARIABLE not in os.environ:
            return None
        act, time, lazy = os.environ[VARIABLE].split(":")
        return cls(Act(act), int(time), lazy=bool(lazy))


class TableWorkers(FaultWorkers):
    """Starts workers with small table segments that are written as often as possible."""

    def start_table(
        self,
        stream: TestStream,
        crash: Crash | TableCrash | None = None,
        *,
        partition: int = 0,
        arguments: Sequence[str | Path] = (),
    ) -> WorkerProcess:
        """Start a worker that may be killed at a step or an act; otherwise as `start`."""
        worker = WorkerProcess(
            stream,
            partition,
            self.state_dir(stream, partition),
            arguments=arguments,
            module=MODULE,
            environment=crash.environment if crash else None,
        )
        self._started.append(worker)
        return worker


def table(slots: int) -> dict[str, Any]:
    """Return the manifest's store."""
    return {"type": "InverseBloom", "inverseBloom": {"slots": slots}}


def edit(stream: TestStream, **spec: object) -> None:
    """Change fields of a stream's manifest, which apply at the next start of a worker."""
    document = yaml.safe_load(stream.manifest.read_text())
    document["spec"].update(spec)
    stream.manifest.write_text(yaml.safe_dump(document))


def judged_table(stream: TestStream, *sizes: int) -> Verdict:
    """Judge the whole stream: no defects but duplicates that a shared slot explains.

    `sizes` are the numbers of slots that its tables had.
    """
    raw = stream.raw()
    verdict = judge(raw, stream.clean(), key_id)
    assert verdict.defects.keys() <= {"duplicated"}, str(verdict)
    explained = colliding(raw, sizes)
    again = {(defect.partition, defect.id) for defect in verdict.duplicated}
    assert again <= explained, f"no collision explains {again - explained}; {verdict}"
    return verdict


def colliding(raw: Iterable[Record], sizes: Sequence[int]) -> set[tuple[int, object]]:
    """Return (partition, id) of ids that share a slot with another id.

    Both are of the same partition; a collision in a table of any of the sizes counts.
    """
    found: set[tuple[int, object]] = set()
    by_partition: dict[int, set[bytes]] = {}
    for record in raw:
        if record.key:
            by_partition.setdefault(record.partition, set()).add(record.key)
    for partition, keys in by_partition.items():
        ordered = sorted(keys)
        hashes = hash_ids(b"".join(map(pack_id, ordered)))
        for slots in sizes:
            _, place, count = np.unique(
                Table(slots, 8).slots_of(hashes), return_inverse=True, return_counts=True
            )
            shared = np.flatnonzero(count[place] > 1).tolist()
            found.update((partition, ordered[row]) for row in shared)
    return found


def at(crash: TableCrash | None, kill: Callable[[], object]) -> Callable[[Act], None]:
    """Return a function that counts the acts, and kills at the chosen act."""
    times = 0

    def reached(act: Act) -> None:
        nonlocal times
        if crash is None or act is not crash.act:
            return
        times += 1
        if times == crash.time:
            kill()

    return reached
