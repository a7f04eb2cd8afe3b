"""Decide on the partition of each record.

The loop calls it. Pure: no clock, no I/O. Invariant: copies of an id, and with `by: Key` records of a key, always get
the same partition, whichever router decides.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from confluent_kafka import Message
from numpy.typing import NDArray

from dedupe_crds.spec.flow import Flow
from dedupe_crds.spec.repartition import RepartitionBy
from dedupe_ids.extract import extractor_for
from dedupe_ids.jump_hash import partitions_of_ids, partitions_of_keys
from dedupe_ids.origin import take_origin
from dedupe_kafka.headers import headers_of
from dedupe_kafka.offsets import Place

Partitions = NDArray[np.intp]
"""A partition for each record of a batch, -1 where none is found: shape (n,)."""

_Find = Callable[[Sequence[Message]], Partitions]


@dataclass(frozen=True, slots=True)
class Routed:
    """The partition of each record; `without` had neither the id nor key asked for."""

    partitions: list[int]
    without: int


class Route:
    """The rule of a stream: by id, else by key, else by origin; or by key first.

    `place_of` tells where a producer wrote a record; by default that is where it was read.
    """

    def __init__(
        self,
        spec: Flow,
        by: RepartitionBy,
        count: int,
        place_of: "Callable[[Message], Place] | None" = None,
    ) -> None:
        self._count = count
        self._place_of = place_of or _place_of
        self._extract = extractor_for(spec.id)
        first: tuple[_Find, ...] = (self._by_id, self._by_key)
        if by is RepartitionBy.KEY:
            first = first[::-1]
        self._rules = (*first, self._by_origin)

    def of(self, records: Sequence[Message]) -> Routed:
        """Return the partition of each record. An id or key that is missing is counted."""
        found = self._rules[0](records)
        without = int((found < 0).sum())
        for rule in self._rules[1:]:
            missing = found < 0
            if not missing.any():
                break
            found[missing] = rule(list(compress(records, missing)))
        return Routed(found.tolist(), without)

    def _by_id(self, records: Sequence[Message]) -> Partitions:
        ids = self._extract(records)
        found = np.full(len(records), -1, np.intp)
        found[ids.rows] = partitions_of_ids(ids.packed, self._count)
        return found

    def _by_key(self, records: Sequence[Message]) -> Partitions:
        keys = {row: key for row, record in enumerate(records) if (key := record.key()) is not None}
        found = np.full(len(records), -1, np.intp)
        found[list(keys)] = partitions_of_keys(list(keys.values()), self._count)
        return found

    def _by_origin(self, records: Sequence[Message]) -> Partitions:
        # Not by offset: what came from one partition keeps its order.
        places = map(self._place_of, records)
        origins = [b"%s:%d" % (topic.encode(), partition) for topic, partition in places]
        return np.asarray(partitions_of_keys(origins, self._count), np.intp)


def place_of_origin(record: Message) -> Place:
    """Return where a producer wrote a record that a router has sent."""
    origin, _ = take_origin(headers_of(record))  # type: ignore[arg-type] # a null value is no origin
    return _place_of(record) if origin is None else (origin.topic, origin.partition)


def _place_of(record: Message) -> Place:
    return record.topic() or "", record.partition() or 0
