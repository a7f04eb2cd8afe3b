"""Judge by a sample of records if copies of an id meet in one partition.

Each worker samples its partition (`dedupe_worker.kafka.key_sample`); the operator and `dedupe run` judge the samples of
a stream together. Values in, values out.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dedupe_crds.formatting import ranges
from dedupe_crds.spec.flow import Flow
from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_crds.spec.topics import IdFrom, IdSource
from dedupe_crds.status.key_sample import KeySample

_FEWEST_RECORDS: Final = 50
# So few records may differ, such as those that somebody wrote by hand.
_EXCEPTIONS: Final = 0.01
_REMEDY: Final = (
    "Have all producers send the records of an id to the same partition: with the id as the key, one partitioner, and "
    "a number of partitions that stays. Or let routers send each message to the partition of its id: add "
    "spec.repartition"
)


class PartitioningReason(StrEnum):
    """The way in which records come to their partitions, by a sample."""

    BY_ID = "ById"
    BY_KEY = "ByKey"
    ONE_PARTITION = "OnePartition"
    UNKNOWN = "Unknown"
    NO_KEYS = "NoKeys"
    NOT_SAMPLED = "NotSampled"


@dataclass(frozen=True, slots=True)
class Partitioning:
    """A judgement.

    `meet`: copies of an id meet in one partition; None if that is not known. `by_routers`: it follows from the manifest
    alone.
    """

    reason: PartitioningReason
    meet: bool | None
    message: str
    by_routers: bool = False


def describe_added(partitions: Sequence[int]) -> str:
    """Return what it means that partitions were added to an input, and what to do."""
    several = len(partitions) > 1
    return (
        f"Partition{'s' * several} {ranges(partitions)} {'were' if several else 'was'} added to the input, and "
        f"{'their' if several else 'its'} messages wait. Producers now send keys to other partitions than before, so a "
        "message may pass again whose first copy is in another partition. To have workers for what was added, and "
        "accept that, set spec.input.addedPartitions to Accept. To accept no such message, let routers send each "
        "message to the partition of its id: add spec.repartition."
    )


def describe_shared_ids(spec: Flow) -> str | None:
    """Return that ids are of all inputs together, for a stream with several inputs.

    None if there is one, or if ids are of the content: equal content is the same message.
    """
    if not spec.input.may_be_several or spec.id.from_ is IdFrom.CONTENT:
        return None
    field = "pattern" if spec.input.pattern is not None else "topics"
    return (
        f"Ids must be unique over all topics of spec.input.{field} ({spec.input.shown}): of two records with the same "
        "id in different topics, such as order 1 and return 1, only the first passes. If ids are unique only within a "
        "topic, create one stream for each topic."
    )


def join_samples(samples: Iterable[KeySample]) -> KeySample:
    """Return the samples of the newest number of partitions as one."""
    found = list(samples)
    partitions = max((each.partitions for each in found), default=0)
    fits: Counter[str] = Counter()
    records = without_key = 0
    for each in found:
        if each.partitions == partitions:
            records += each.records
            without_key += each.without_key
            fits.update(each.fits)
    return KeySample(
        partitions=partitions, records=records, without_key=without_key, fits=dict(fits)
    )


def judge_stream(samples: Iterable[KeySample], spec: Flow) -> Partitioning:
    """Judge if copies of an id meet: by routers, or else by samples of the input."""
    if spec.repartition is None:
        return judge_partitioning(samples, spec.id)
    shared = describe_shared_ids(spec)
    more = f". {shared.removesuffix('.')}" if shared else ""
    if spec.repartition.by is RepartitionBy.KEY and spec.id.from_ is not IdFrom.KEY:
        text = (
            "routers send each message to the partition of its key, as spec.repartition.by says: copies of an id meet "
            "only if they have the same key"
        )
        return Partitioning(PartitioningReason.BY_KEY, None, text + more, by_routers=True)
    text = "routers send each message to the partition of its id"
    return Partitioning(PartitioningReason.BY_ID, True, text + more, by_routers=True)


def judge_partitioning(samples: Iterable[KeySample], source: IdSource) -> Partitioning:
    """Judge by the samples of all partitions if copies of an id meet in one.

    `source` is the stream's `spec.id`. A record without key has no id if that is the key, and passes in any case.
    """
    sample = join_samples(samples)
    with_key = sample.records - sample.without_key
    by_key = source.from_ is IdFrom.KEY
    if sample.partitions == 1:
        text = "the input has one partition, in which all records meet"
        return Partitioning(PartitioningReason.ONE_PARTITION, True, text)
    if sample.records < _FEWEST_RECORDS:
        return Partitioning(
            PartitioningReason.NOT_SAMPLED, None, "too few records have been read for a judgement"
        )
    if with_key == 0 if by_key else sample.without_key > _EXCEPTIONS * sample.records:
        return Partitioning(PartitioningReason.NO_KEYS, False, _no_keys(sample, by_key=by_key))
    if with_key < _FEWEST_RECORDS:
        text = "too few records with a key have been read for a judgement"
        return Partitioning(PartitioningReason.NOT_SAMPLED, None, text)
    for partitioner, explained in sorted(sample.fits.items()):
        if explained >= (1 - _EXCEPTIONS) * with_key:
            text = f"partitions follow from the keys by {partitioner}"
            if not by_key:
                text += ": copies of an id meet if they have the same key"
            return Partitioning(PartitioningReason.BY_KEY, True, text)
    return Partitioning(PartitioningReason.UNKNOWN, False, _unknown(sample, with_key))


def _no_keys(sample: KeySample, *, by_key: bool) -> str:
    share = _percent(sample.without_key, sample.records)
    if by_key:
        return f"{share} of the records have no key, and so no id: all of them pass. {_REMEDY}"
    return (
        f"{share} of the records have no key, so their producers choose any partition: copies of an id may be in "
        f"different partitions, and then each of them passes. {_REMEDY}"
    )


def _unknown(sample: KeySample, with_key: int) -> str:
    fits = ", ".join(
        f"{each} {_percent(count, with_key)}" for each, count in sorted(sample.fits.items())
    )
    return (
        f"no known partitioner explains the partitions of the keys (explained by {fits}): the producers have "
        "another partitioner, or several, or the topic had fewer partitions before. Copies of an id may be in "
        f"different partitions, and then each of them passes. {_REMEDY}"
    )


def _percent(part: int, whole: int) -> str:
    """Return a share in steps of a tenth, so that a message seldom changes.

    >>> _percent(999, 1000), _percent(1, 3), _percent(1, 1000)
    ('90 %', '30 %', 'under 10 %')
    """
    tenths = part * 10 // whole
    return f"{tenths * 10} %" if tenths else "under 10 %"
