"""Streams whose ids are in a table of fixed size: what may pass twice, and where their workers may be killed."""

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
from tests.support.checker.record import Record
from tests.support.processes.crashes import Crash
from tests.support.processes.inner_crashes import FaultWorkers
from tests.support.processes.processes import WorkerProcess
from tests.support.traffic.id_sources import key_id
from tests.support.traffic.streams import TestStream

VARIABLE = "TABLE_CRASH"
MODULE = "tests.support.processes.table_worker"


class Act(StrEnum):
    """One of those by which a table gets to disk; the n-th time it comes, the process gets SIGKILL."""

    SEGMENT_BEGUN = "segment-begun"
    """Half of a segment is there."""
    SEGMENT_WRITTEN = "segment-written"
    """A segment is whole, and no manifest names it."""
    MANIFEST_WRITTEN = "manifest-written"
    """The new segments count, and those that they replace are there, too."""
    SEGMENTS_LINKED = "segments-linked"
    """A checkpoint has all segments, and no manifest."""


@dataclass(frozen=True, slots=True)
class TableCrash:
    """Kill at the n-th time of an act, counted from 1."""

    act: Act
    time: int = 1
    lazy: bool = False
    """Few ids get to disk before the worker stops, as in one that is not tested."""

    @property
    def environment(self) -> dict[str, str]:
        """What tells a worker of it."""
        return {VARIABLE: f"{self.act}:{self.time}:{'lazy' if self.lazy else ''}"}

    @classmethod
    def from_environment(cls) -> Self | None:
        """The other way round, in the worker; None if it is to live."""
        if VARIABLE not in os.environ:
            return None
        act, time, lazy = os.environ[VARIABLE].split(":")
        return cls(Act(act), int(time), lazy=bool(lazy))


class TableWorkers(FaultWorkers):
    """Workers whose tables have small segments, which are written as often as can be."""

    def start_table(
        self,
        stream: TestStream,
        crash: Crash | TableCrash | None = None,
        *,
        partition: int = 0,
        arguments: Sequence[str | Path] = (),
    ) -> WorkerProcess:
        """Start a worker that may be killed at a step of its loop or at an act; otherwise as `start`."""
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
    """The manifest's store."""
    return {"type": "InverseBloom", "inverseBloom": {"slots": slots}}


def edit(stream: TestStream, **spec: object) -> None:
    """Change fields of a stream's manifest; its workers take it with their next start."""
    document = yaml.safe_load(stream.manifest.read_text())
    document["spec"].update(spec)
    stream.manifest.write_text(yaml.safe_dump(document))


def judged_table(stream: TestStream, *sizes: int) -> Verdict:
    """Judge the whole stream: nothing is lost, altered or out of order, and what passed twice shares its slot.

    `sizes` are the slots that its tables had.
    """
    raw = stream.raw()
    verdict = judge(raw, stream.clean(), key_id)
    assert verdict.defects.keys() <= {"duplicated"}, str(verdict)
    explained = colliding(raw, sizes)
    again = {(defect.partition, defect.id) for defect in verdict.duplicated}
    assert again <= explained, f"no collision explains {again - explained}; {verdict}"
    return verdict


def colliding(raw: Iterable[Record], sizes: Sequence[int]) -> set[tuple[int, object]]:
    """(partition, id) of those that share their slot with another id of their partition, in a table of any size."""
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
    """Count the acts, and kill at the one that was asked for."""
    times = 0

    def reached(act: Act) -> None:
        nonlocal times
        if crash is None or act is not crash.act:
            return
        times += 1
        if times == crash.time:
            kill()

    return reached
