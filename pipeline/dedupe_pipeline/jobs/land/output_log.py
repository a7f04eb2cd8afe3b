"""The log of an output: its checkpoint and topic, and the offsets of each batch.

The job `land` calls it. Spark numbers the batches of a checkpoint and repeats the last one after a crash. A batch that
exists in the output is the same one, unless an older checkpoint was restored, or the topic was created again. So both
are recorded, in files that readers of Parquet ignore:

    .landing.json       {"query": "…", "topic": "orders-clean", "topicId": "…"}: the checkpoint's query, and the topic
    .batches/17.json    {"topicId": "…", "offsets": {"0": [1200, 1700]}}: from 1200 to before 1700

Invariant: a batch is recorded before its first file is moved here. The last 100 records are kept: of as many batches
Spark keeps the plans by default, so that no repetition of a checkpoint asks for more. A batch from before them, which
only a checkpoint from a backup plans, is refused, because nothing tells what was landed under its number.

Outputs of earlier releases have no UUID in `.landing.json`, and batches without a record: such a batch is compared with
its repetition record by record.

The offsets are those in Spark's log, and not the least and greatest of the batch's records, because the former decide
which records a repetition reads, and include partitions without records.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa

from dedupe_kafka.offsets import OffsetRange
from dedupe_pipeline.errors import LandingRefused
from dedupe_pipeline.jobs.land.parquet_sink import write_atomically
from dedupe_pipeline.jobs.streaming import committed_batch, initial_offsets, planned_ends

_MARKER = ".landing.json"
_BATCHES = ".batches"
_KEPT_BATCHES = 100  # the default of spark.sql.streaming.minBatchesToRetain
_SHOWN = 4
_LAND_AGAIN = "land the topic again with another --output and --checkpoint"
_OLD_CHECKPOINT = (
    "So the checkpoint is not the newest one, such as one that was restored from a backup: bring the newest checkpoint "
    f"back, or {_LAND_AGAIN}"
)


@dataclass(frozen=True, kw_only=True)
class BatchRecord:
    """The topic's UUID and the offsets of a batch by partition."""

    topic_id: str
    offsets: Mapping[int, OffsetRange]

    @classmethod
    def planned(cls, checkpoint: Path, batch: int, topic_id: str) -> Self:
        """Return the record of a batch as Spark has planned it."""
        starts = planned_ends(checkpoint, batch - 1) if batch else initial_offsets(checkpoint)
        # Spark reads an added partition, which has no earlier offset, from 0.
        offsets = {
            number: OffsetRange(starts.get(number, 0), end)
            for number, end in planned_ends(checkpoint, batch).items()
        }
        return cls(topic_id=topic_id, offsets=offsets)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the record in a file."""
        found = json.loads(text)
        offsets = {int(number): OffsetRange(*at) for number, at in found["offsets"].items()}
        return cls(topic_id=found["topicId"], offsets=offsets)

    def to_json(self) -> str:
        """Return the content of its file."""
        offsets = {str(number): [at.low, at.end] for number, at in sorted(self.offsets.items())}
        return json.dumps({"topicId": self.topic_id, "offsets": offsets})

    def describe(self, other: Self) -> str:
        """Return the topic, and those offsets that are different in `other`."""
        different = [
            f"{at.low} to before {at.end} of partition {number}"
            for number, at in sorted(self.offsets.items())
            if other.offsets.get(number) != at
        ]
        more = ", …" if len(different) > _SHOWN else ""
        return ", ".join([f"topic {self.topic_id}", *different[:_SHOWN]]) + more


def check_output(output: Path, checkpoint: Path, topic: str, topic_id: str) -> None:
    """Check that output, checkpoint and topic belong together.

    A checkpoint of which nothing has landed is deleted: its plan may be of an earlier topic.

    Raises:
        LandingRefused: another batch would land records twice, or skip some.
    """
    marker = _read_marker(output)
    done = committed_batch(checkpoint)
    if marker is None:
        if any(output.glob("date=*")):
            raise LandingRefused(
                f"{output} holds date=… directories that were not landed here; "
                "choose an empty directory"
            )
        if done is not None:
            raise LandingRefused(
                f"{checkpoint} has recorded batches that {output} does not contain; bring the output "
                "back, or delete the checkpoint to land the topic from its beginning"
            )
        shutil.rmtree(checkpoint, ignore_errors=True)
        return
    query = query_id(checkpoint)
    if marker["query"] != query:
        raise LandingRefused(
            f"{output} was landed with another checkpoint than {checkpoint} (query "
            f"{marker['query']}, not {query}); use that checkpoint, or choose an empty output directory"
        )
    if marker["topic"] != topic:
        raise LandingRefused(
            f"{output} holds topic {marker['topic']!r}, not {topic!r}; choose another directory"
        )
    known = marker.get("topicId") or _last_topic_id(output)
    if known not in {None, topic_id}:
        raise LandingRefused(
            f"topic {topic!r} was deleted and created again since it was landed in {output}: its UUID was {known} and "
            f"is {topic_id}, so the offsets in {checkpoint} are of other records; {_LAND_AGAIN}"
        )
    if "topicId" in marker and done is not None and not _contains(output, done):
        raise LandingRefused(
            f"{checkpoint} has recorded batches up to {done}, and {output} does not contain that one, such as one that "
            f"was restored from a backup: bring the newest output back, or {_LAND_AGAIN}"
        )


def write_marker(output: Path, checkpoint: Path, topic: str, topic_id: str) -> None:
    """Bind the output to checkpoint and topic before the first batch; no effect later."""
    if _read_marker(output) is None:
        marker = {"query": query_id(checkpoint), "topic": topic, "topicId": topic_id}
        write_atomically(checkpoint / _MARKER, output / _MARKER, json.dumps(marker))


def admit_batch(
    output: Path, checkpoint: Path, staging: Path, batch: int, planned: BatchRecord
) -> None:
    """Record a batch before it is published, or check that it is the recorded one.

    Raises:
        LandingRefused: the output has another batch with this number, or later ones only.
    """
    found = recorded_batch(output, batch)
    if found is None:
        recorded = _recorded_batches(output)
        if recorded and batch < recorded[-1]:
            raise LandingRefused(
                f"{output} has batches up to {recorded[-1]} and no longer knows the offsets of batch {batch}, which "
                f"{checkpoint} plans. {_OLD_CHECKPOINT}"
            )
        _check_unrecorded(output, staging, batch)
        (output / _BATCHES).mkdir(exist_ok=True)
        write_atomically(checkpoint / _MARKER, _path(output, batch), planned.to_json())
        for old in recorded:
            if old <= batch - _KEPT_BATCHES:
                _path(output, old).unlink()
    elif found != planned:
        raise LandingRefused(
            f"batch {batch} in {output} is of {found.describe(planned)}; {checkpoint} plans it with "
            f"{planned.describe(found)}. {_OLD_CHECKPOINT}"
        )


def recorded_batch(output: Path, batch: int) -> BatchRecord | None:
    """Return the record of a batch, None if there is none."""
    try:
        return BatchRecord.from_json(_path(output, batch).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def query_id(checkpoint: Path) -> str | None:
    """Return Spark's id of a checkpoint's query, None before its first start."""
    try:
        text = (checkpoint / "metadata").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return str(json.loads(text)["id"])


def _read_marker(output: Path) -> dict[str, str] | None:
    try:
        text = (output / _MARKER).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    marker: dict[str, str] = json.loads(text)
    return marker


def _last_topic_id(output: Path) -> str | None:
    recorded = _recorded_batches(output)
    last = recorded_batch(output, recorded[-1]) if recorded else None
    return last.topic_id if last else None


def _contains(output: Path, batch: int) -> bool:
    recorded = _recorded_batches(output)
    is_recorded = bool(recorded) and batch <= recorded[-1]
    return is_recorded or any(output.glob(f"date=*/batch={batch}"))


def _recorded_batches(output: Path) -> list[int]:
    """Return the numbers of the batches with a record, in order."""
    return sorted(int(path.stem) for path in (output / _BATCHES).glob("[0-9]*.json"))


def _check_unrecorded(output: Path, staging: Path, batch: int) -> None:
    for landed in output.glob(f"date=*/batch={batch}"):
        staged = staging / landed.parent.name
        if not staged.exists() or _places(landed) != _places(staged):
            raise LandingRefused(
                f"{landed} has other records than batch {batch} of the checkpoint. {_OLD_CHECKPOINT}"
            )


def _places(directory: Path) -> pa.Table:
    """Return partition and offset of each record, in order."""
    # It imports pandas, which takes longer than all else of the command.
    from pyarrow import dataset  # noqa: PLC0415

    table = dataset.dataset(directory, format="parquet").to_table(["partition", "offset"])
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")])


def _path(output: Path, batch: int) -> Path:
    return output / _BATCHES / f"{batch}.json"
