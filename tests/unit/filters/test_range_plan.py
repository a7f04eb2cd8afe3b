"""What is to be read, against a partition that is played through: nothing that matches is ever skipped."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dedupe_filters.range_plan import UNKNOWN_PRODUCER, Claims, Plan, plan, uncovered
from dedupe_kafka.offsets import OffsetRange

WANTED = "wanted"
MARKER = None


@dataclass
class Partition:
    """A partition as its writers make it: what is at each offset, and what is claimed."""

    log: list[str | None] = field(default_factory=list)
    claims: list[tuple[int, int, int, bool]] = field(default_factory=list)

    def transaction(
        self, values: list[str], foreign: Sequence[str] = (), *, claimed: bool, may_match: bool
    ) -> None:
        """Our worker's: its records, its marker, and a claim, which may match although nothing does.

        `foreign` come between the last record and the marker.
        """
        start = len(self.log)
        self.log += values
        if values and claimed:
            self.claims.append((start, len(self.log), 1, may_match or WANTED in values))
        if values:
            self.log += [*foreign, MARKER]

    def together(self, first: list[str], between: Sequence[str], second: list[str]) -> None:
        """Two producers' transactions, open at the same time; `between` are a stranger's."""
        for producer, values in ((2, first), (3, second)):
            start = len(self.log)
            self.log += values
            if values:
                self.claims.append((start, len(self.log), producer, WANTED in values))
            self.log += between if producer == 2 else [MARKER, MARKER]

    def aborted(self, values: list[str]) -> None:
        """A transaction of which nothing is visible."""
        self.log += [MARKER for _ in values] + [MARKER]

    def foreign(self, value: str) -> None:
        """A record of a producer that knows nothing of us."""
        self.log.append(value)

    def read(self, start: int, end: int, *, may_match: bool) -> None:
        """What `dedupe index-filters` claims of a range."""
        values = self.log[start:end]
        if values:
            self.claims.append((start, start + len(values), 0, may_match or WANTED in values))

    @property
    def matching(self) -> set[int]:
        return {offset for offset, value in enumerate(self.log) if value == WANTED}


VALUES = st.lists(st.sampled_from([WANTED, "b", "c", "d"]), max_size=4)


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    one = Partition()
    for _ in range(draw(st.integers(0, 8))):
        match draw(st.sampled_from(["ours", "ours", "ours", "together", "aborted", "foreign"])):
            case "ours":
                foreign = draw(st.lists(st.sampled_from([WANTED, "b"]), max_size=1))
                one.transaction(
                    draw(VALUES),
                    foreign,
                    claimed=draw(st.booleans()),
                    may_match=draw(st.booleans()),
                )
            case "together":
                one.together(draw(VALUES), draw(VALUES), draw(VALUES))
            case "aborted":
                one.aborted(draw(VALUES))
            case _:
                one.foreign(draw(st.sampled_from([WANTED, "b"])))
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(one.log)))
        end = draw(st.integers(start, len(one.log)))
        one.read(start, end, may_match=draw(st.booleans()))
    one.claims = draw(st.permutations(one.claims))
    return one


def planned(one: Partition, start: int, end: int, gap: int = 0) -> Plan:
    return plan(
        OffsetRange(start, end), Claims.of(one.claims), stable_end=len(one.log), gap_offsets=gap
    )


def offsets(ranges: tuple[OffsetRange, ...]) -> set[int]:
    return {offset for each in ranges for offset in range(each.low, each.end)}


@given(partitions(), st.integers(0, 6), st.data())
def test_what_matches_is_always_read(one: Partition, gap: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(one.log)))
    end = data.draw(st.integers(0, len(one.log)))

    ranges = planned(one, start, end, gap).ranges

    assert one.matching & set(range(start, end)) <= offsets(ranges)


@given(partitions(), st.integers(0, 6), st.data())
def test_spans_are_in_order_within_what_is_wanted_and_further_apart_than_the_gap(
    one: Partition, gap: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(one.log)))
    end = data.draw(st.integers(0, len(one.log)))

    ranges = planned(one, start, end, gap).ranges

    assert all(start <= each.low < each.end <= end for each in ranges)
    assert all(b.low - a.end > gap for a, b in pairwise(ranges))


@given(partitions())
def test_what_a_claim_rules_out_and_no_other_claims_is_skipped(one: Partition) -> None:
    ranges = planned(one, 0, len(one.log)).ranges

    covered = [[c for c in one.claims if c[0] <= offset < c[1]] for offset in range(len(one.log))]
    ruled_out = {o for o, claims in enumerate(covered) if claims and not any(c[3] for c in claims)}
    assert not ruled_out & offsets(ranges)


@given(partitions())
def test_what_no_claim_covers_is_left_to_be_indexed_but_for_markers(one: Partition) -> None:
    ranges = uncovered(OffsetRange(0, len(one.log)), Claims.of(one.claims), stable_end=len(one.log))

    covered = {offset for start, end, *_ in one.claims for offset in range(start, end)}
    left = offsets(ranges)
    assert not left & covered
    assert all(one.log[offset] is MARKER for offset in set(range(len(one.log))) - covered - left)


def test_a_marker_between_two_transactions_is_not_read() -> None:
    one = Partition()
    for values in (["b"], ["c", "c"], [WANTED], ["b"], ["c"]):
        one.transaction(values, claimed=True, may_match=False)

    assert planned(one, 0, len(one.log)).ranges == (OffsetRange(5, 6),)
    assert planned(one, 0, len(one.log)) == Plan((OffsetRange(5, 6),), chunks=5, chunks_skipped=4)


def test_a_foreign_record_between_two_transactions_is_read() -> None:
    one = Partition()
    one.transaction(["b"], claimed=True, may_match=False)
    one.foreign(WANTED)
    one.transaction(["b"], claimed=True, may_match=False)

    assert planned(one, 0, len(one.log)).ranges == (OffsetRange(1, 3),)


def test_one_offset_between_ranges_that_are_no_transactions_is_read() -> None:
    claims = Claims.of([(0, 5, 0, False), (6, 9, 0, False)])

    assert plan(OffsetRange(0, 9), claims, stable_end=9).ranges == (OffsetRange(5, 6),)


def test_one_offset_before_an_end_that_is_not_the_partitions_is_read() -> None:
    claims = Claims.of([(0, 5, 1, False)])

    assert plan(OffsetRange(0, 6), claims, stable_end=6).ranges == ()
    assert plan(OffsetRange(0, 6), claims, stable_end=7).ranges == (OffsetRange(5, 6),)


def test_a_claim_that_may_match_is_heard_beside_one_that_rules_its_range_out() -> None:
    claims = Claims.of([(0, 10, 0, False), (4, 6, 0, True)])

    assert plan(OffsetRange(0, 10), claims, stable_end=10).ranges == (OffsetRange(4, 6),)


def test_a_claim_that_is_no_transaction_tells_nothing_of_the_offset_before_it() -> None:
    """Of what was read from the marker on: the record before the marker is a stranger's."""
    one = Partition()
    one.transaction(["b"], [WANTED], claimed=True, may_match=False)
    one.read(2, 3, may_match=False)

    assert one.log == ["b", WANTED, MARKER]
    assert planned(one, 0, 3).ranges == (OffsetRange(1, 2),)


def test_a_gap_as_long_as_it_may_be_is_read() -> None:
    claims = Claims.of([(1, 3, 0, False)])

    assert plan(OffsetRange(0, 4), claims, stable_end=4, gap_offsets=2).ranges == (
        OffsetRange(0, 4),
    )
    assert plan(OffsetRange(0, 4), claims, stable_end=4, gap_offsets=1).ranges == (
        OffsetRange(0, 1),
        OffsetRange(3, 4),
    )


def test_without_claims_everything_is_read() -> None:
    assert plan(OffsetRange(3, 9), Claims.of([]), stable_end=9).ranges == (OffsetRange(3, 9),)
    assert plan(OffsetRange(9, 9), Claims.of([]), stable_end=9).ranges == ()


def test_a_strangers_record_between_transactions_of_two_producers_is_read() -> None:
    """0-4 are of A, 5 is a stranger's, 6-8 are of B; the markers follow at 9 and 10."""
    claims = Claims.of([(0, 5, 7, False), (6, 9, 8, False)])

    assert plan(OffsetRange(0, 11), claims, stable_end=11).ranges == (
        OffsetRange(5, 6),
        OffsetRange(9, 11),
    )


def test_one_offset_between_transactions_of_unknown_producers_is_read() -> None:
    claims = Claims.of([(0, 5, UNKNOWN_PRODUCER, False), (6, 9, UNKNOWN_PRODUCER, False)])

    assert plan(OffsetRange(0, 10), claims, stable_end=10).ranges == (OffsetRange(5, 6),)
