"""Calculate the partition of a past id, if its source does not contain it.

`open_source` chooses it, and the sources `files` and `topic` use it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dedupe_crds.spec.repartition import Repartition, RepartitionBy
from dedupe_ids.jump_hash import partitions_of_ids, partitions_of_keys
from dedupe_kafka.errors import InvalidConfig
from dedupe_kafka.partitioners import Partitioner, partitions_of

Partitions = NDArray[np.int64]
"""The partition of each of n ids: shape (n,)."""

OPTION: Final = "--partition-by"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A function to the partition, of joined ids or of their records' keys.

    `name` stands for it in a fingerprint, `chosen_by` in errors. If `is_only`, it holds whatever partitions the source
    itself contains.
    """

    name: str
    chosen_by: str
    is_only: bool
    of_ids: Callable[[bytes], Partitions] | None = None
    of_keys: Callable[[Sequence[bytes]], Partitions] | None = None


def placement_of(
    repartition: Repartition | None, partition_by: Partitioner | None, count: int
) -> Placement | None:
    """Return how routers choose a partition out of `count`, or else producers.

    None means that the partitions of the source are those of the input. Raises InvalidConfig for both.
    """
    if repartition is None:
        if partition_by is None:
            return None
        by_hash = partial(_of_hash, count=count, partitioner=partition_by)
        return Placement(name=partition_by, chosen_by=OPTION, is_only=False, of_keys=by_hash)
    chosen_by = f"spec.repartition.by: {repartition.by}"
    if partition_by is not None:
        raise InvalidConfig(
            f"{OPTION} is for streams without spec.repartition: here {chosen_by} determines the partition of an id, "
            "however it was sent; omit the option"
        )
    named = partial(Placement, name=repartition.by, chosen_by=chosen_by, is_only=True)
    if repartition.by is RepartitionBy.ID:
        return named(of_ids=partial(_of_jump_by_id, count=count))
    return named(of_keys=partial(_of_jump_by_key, count=count))


def _of_hash(keys: Sequence[bytes], count: int, partitioner: Partitioner) -> Partitions:
    return partitions_of(keys, count, partitioner)


def _of_jump_by_id(packed: bytes, count: int) -> Partitions:
    return partitions_of_ids(packed, count).astype(np.int64)


def _of_jump_by_key(keys: Sequence[bytes], count: int) -> Partitions:
    return partitions_of_keys(keys, count).astype(np.int64)
