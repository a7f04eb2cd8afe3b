"""Excuse what a healthy stream does although it seems a defect, within bounds.

The job `audit` computes the facts, and `verdicts` and `repartitioned` apply them. Invariant: each excuse is bounded by
what the topics and the manifest prove, and counted apart; docs/audit.md says what each of them leaves undetected.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.inverse_bloom import InverseBloom, slot_bytes
from dedupe_crds.spec.stream import Spec

EXCUSES = (
    "before_input",
    "before_output",
    "beyond_window",
    "forgotten",
    "forgotten_on_request",
    "known_before",
)
"""Verdicts on records that seem lost, duplicated or foreign, and are no defects."""

# An id takes some 29 bytes of disk, up to 46 with times and hashes. More bytes would excuse repeats that come earlier.
_BYTES_OF_ID = 48
# A generation is dropped as a whole, and may be larger than its share by what is written between two checks.
_FILLED = 0.9


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Knowledge about a stream besides the records that are judged.

    `begins` is for each output partition whose input is not read from its first record the offset up to which records
    may be of earlier input; `accounted_from` for each input partition whose output is not there from its first record
    the offset up to which the output may have been deleted. An id may be forgotten after `max_age_ms`, or when so many
    others have come that `most_between` offsets of the output lie between. A table of `slots` forgets at any time, the
    more the more records came between; with a repartition these are known only to be at most `between`. `known` has the
    `ident` of ids from before the stream, `forgotten` also how many `times` each was forgotten on request.
    """

    max_age_ms: float = math.inf
    most_between: float = math.inf
    slots: float | None = None
    now_ms: int = 1 << 62
    begins: Mapping[int, int] = field(default_factory=dict)
    accounted_from: Mapping[int, int] | Mapping[str, int] = field(default_factory=dict)
    between: int | None = None
    known: DataFrame | None = None
    forgotten: DataFrame | None = None

    @classmethod
    def of(
        cls,
        spec: Spec,
        *,
        now_ms: int,
        begins: Mapping[int, int],
        accounted_from: Mapping[int, int] | Mapping[str, int],
        between: int | None,
        known: DataFrame | None = None,
        forgotten: DataFrame | None = None,
    ) -> "Facts":
        """Return the facts about a stream with this spec."""
        window, table = spec.store.window, spec.store.inverse_bloom
        younger = window.max_bytes * (1 - 1 / window.generations) * _FILLED
        return cls(
            max_age_ms=math.inf if table else window.max_age.total_seconds() * 1000,
            most_between=math.inf if table else younger / _BYTES_OF_ID,
            slots=_slots(table, slot_bytes(spec.duplicates, spec.conflicts)) if table else None,
            now_ms=now_ms,
            begins=begins,
            accounted_from=accounted_from,
            between=between,
            known=known,
            forgotten=forgotten,
        )

    def begin(self, partition: str = "partition") -> Column:
        """Return the offset up to which the output may be of earlier input; or 0."""
        return looked_up(self.begins, partition)

    def accounted(self) -> Column:
        """Return the offset up to which the output of the input may be deleted.

        With a repartition that follows from `origin`, a topic and a partition.
        """
        return looked_up(self.accounted_from, "partition" if self.between is None else "origin")

    def may_be_old(self) -> Column:
        """Return whether a repeat may have passed for its age, which is not known yet."""
        if math.isinf(self.max_age_ms):
            return F.lit(False)
        return F.col("was_sent") & (F.col("since_offsets") < F.lit(self.most_between))

    def is_old(self) -> Column:
        """Return whether the id may pass again for its age.

        `since_ms` is the distance to the last record with the id in the output, by the stream's time.
        """
        return F.col("since_ms") > F.lit(self.max_age_ms)

    def is_past(self, since_ms: float, since_offsets: float) -> bool:
        """Return whether an id that was seen so long ago may pass again, almost surely."""
        # After 40 times its slots a table has an id with a probability of 10^-17.
        most = self.most_between if self.slots is None else 40 * self.slots
        return since_ms > self.max_age_ms or since_offsets >= most

    def with_told_ids(self, pairs: DataFrame) -> DataFrame:
        """Add `is_known` and `times`, for the told ids."""
        if self.known is None:
            pairs = pairs.withColumn("is_known", F.lit(False))
        else:
            known = self.known.withColumn("is_known", F.lit(True))
            pairs = pairs.join(known, "ident", "left").na.fill(False, ["is_known"])
        if self.forgotten is None:
            return pairs.withColumn("times", F.lit(0))
        return pairs.join(F.broadcast(self.forgotten), "ident", "left").na.fill(0, ["times"])

    def verdict_on_repeat(self) -> Column:
        """Return the verdict on a repeat that passed, unless it `is_old`.

        It follows from `was_sent`, `since_offsets`, `times` and `passes_before`.
        """
        is_pushed_out = F.col("since_offsets") >= F.lit(self.most_between)
        is_requested = F.col("passes_before") <= F.col("times")
        excuse = F.when(is_pushed_out, "beyond_window").when(is_requested, "forgotten_on_request")
        if self.slots is not None:
            excuse = excuse.otherwise("forgotten")
        return F.coalesce(F.when(F.col("was_sent"), excuse), F.lit("duplicated"))

    def share_forgotten(self, between: Column) -> Column:
        """Return the probability that a table has forgotten an id after so many others."""
        if self.slots is None:
            return F.lit(0.0)
        many = between if self.between is None else F.lit(self.between)
        return F.lit(1.0) - F.pow(F.lit(1.0 - 1.0 / self.slots), many)


NO_FACTS = Facts()
"""Nothing is excused."""


def most_forgotten(expected: float) -> int:
    """Return how many repeats a table may let pass, from how many are expected.

    Five standard deviations, and two more for small numbers: one audit in millions exceeds it by chance.
    """
    return math.floor(expected + 5 * math.sqrt(expected)) + 2


def _slots(table: InverseBloom, bytes_each: int) -> float:
    if table.slots is not None:
        return float(table.slots)
    if table.messages is not None and table.retain is not None:
        return table.messages / -math.log(table.retain)
    return (table.memory or 0) / bytes_each


def looked_up(offsets: Mapping[Any, int], place: str = "partition") -> Column:
    """Return the offset of the record's place, 0 for a place without one."""
    if not offsets:
        return F.lit(0)
    found = F.create_map(*(F.lit(n) for n in chain.from_iterable(offsets.items())))
    return F.coalesce(F.try_element_at(found, F.col(place)), F.lit(0))
