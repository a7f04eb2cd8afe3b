"""Choose the restore source of a partition whose volume is gone.

The volume manager calls it. The order is: the newest usable snapshot, then the output topic.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dedupe_crds.spec.snapshots import SnapshotProvider
from dedupe_crds.status.snapshot import PartitionSnapshot, SnapshotPhase
from dedupe_crds.status.stream import RestoreSource
from dedupe_kafka.offsets import PartitionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One partition's copy in one DedupeSnapshot.

    `gone` is the reason why its provider can't restore from it. `failed` is the reason why an earlier restore of this
    volume from it failed.
    """

    name: str
    stream: str
    provider: SnapshotProvider
    entry: PartitionSnapshot | None
    gone: str | None = None
    failed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreChoice:
    """The chosen restore source. `refused` are the better ones, each with the reason."""

    source: RestoreSource
    name: str | None = None
    provider: SnapshotProvider | None = None
    entry: PartitionSnapshot | None = None
    refused: tuple[str, ...] = ()


def choose_source(
    candidates: Sequence[Candidate], *, stream: str, now: PartitionState
) -> RestoreChoice:
    """Choose the newest copy that can be used, else the output topic."""
    refused: list[str] = []
    for candidate in sorted(candidates, key=_recency, reverse=True):
        if reason := refusal(candidate, stream=stream, now=now):
            refused.append(f"{candidate.name}: {reason}")
            continue
        source = (
            RestoreSource.CHECKPOINT
            if candidate.provider is SnapshotProvider.S3
            else RestoreSource.SNAPSHOT
        )
        return RestoreChoice(
            source=source,
            name=candidate.name,
            provider=candidate.provider,
            entry=candidate.entry,
            refused=tuple(refused),
        )
    return RestoreChoice(source=RestoreSource.OUTPUT_TOPIC, refused=tuple(refused))


def refusal(candidate: Candidate, *, stream: str, now: PartitionState) -> str | None:
    """Return why a copy can't be used, None if it can."""
    entry = candidate.entry
    if candidate.stream != stream:
        return f"it is of stream {candidate.stream}"
    if entry is None:
        return "it has no copy of this partition"
    if entry.phase is not SnapshotPhase.COMPLETED:
        return f"its copy of this partition is {entry.phase.value}, not Completed"
    unreadable = entry.unreachable and f"its copy can't be read: {entry.unreachable}"
    return _outdated(entry, now) or unreadable or candidate.gone or candidate.failed


def _outdated(entry: PartitionSnapshot, now: PartitionState) -> str | None:
    """Return why a copy does not match the present topics, None if it does."""
    if entry.output_topic_id != now.output_topic_id:
        return "the output topic was deleted and created again since"
    if entry.input_topic_id not in {now.input_topic_id, *now.earlier_inputs}:
        return "the input topic was deleted and created again since"
    position = entry.output_position
    if position is None or position > now.end:
        return f"it is ahead of the output topic, which ends at offset {now.end}"
    if position < now.low:
        return (
            f"the output topic no longer has the records after its position {position}: "
            f"it begins at offset {now.low}"
        )
    return None


def _recency(candidate: Candidate) -> tuple[datetime, int]:
    """Return the sort key: when the copy was found usable, then its output position."""
    entry = candidate.entry
    never = datetime.fromtimestamp(0).astimezone()
    if entry is None or entry.completed is None:
        return never, 0
    return entry.completed, entry.output_position or 0
