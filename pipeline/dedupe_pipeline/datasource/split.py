"""Divide the offsets to read among Spark tasks and among micro-batches.

Values in, values out; the batch and the streaming reader call it.
"""

from collections.abc import Iterator, Mapping, Sequence

from dedupe_kafka.offsets import OffsetRange


def split(
    ranges: Mapping[int, Sequence[OffsetRange]], tasks: int
) -> list[tuple[int, tuple[OffsetRange, ...]]]:
    """Divide the ranges of each partition among about `tasks` tasks of equal size.

    A task reads from one partition. Each partition that has something to read gets at least one task.

    >>> split({0: [OffsetRange(0, 10)], 1: [OffsetRange(5, 6)]}, 1)
    [(0, (OffsetRange(low=0, end=10),)), (1, (OffsetRange(low=5, end=6),))]
    >>> [part for _, part in split({0: [OffsetRange(0, 10), OffsetRange(20, 30)]}, 2)]
    [(OffsetRange(low=0, end=10),), (OffsetRange(low=20, end=30),)]
    """
    total = sum(map(_size, ranges.values()))
    found = []
    for partition, each in sorted(ranges.items()):
        parts = max(1, round(tasks * _size(each) / total)) if total else 1
        found += [(partition, part) for part in _cut(each, -(-_size(each) // parts))]
    return found


def ends_within(
    ranges: Mapping[int, Sequence[OffsetRange]],
    ends: Mapping[int, int],
    starts: Mapping[int, int],
    limit: int,
) -> dict[int, int]:
    """Return the ends of the partitions for at most `limit` offsets in total.

    Each partition gets a share of the limit in proportion to its size. `ends` is the end of each partition without a
    limit. Before a partition's first range there is nothing to read.
    """
    sizes = {partition: _size(each) for partition, each in ranges.items()}
    total = sum(sizes.values())
    if total <= limit:
        return dict(ends)
    shares = {partition: limit * size // total for partition, size in sizes.items()}
    # The rest goes to the partitions that lost most by rounding, so that a small limit makes progress as well.
    left = limit - sum(shares.values())
    for partition in sorted(sizes, key=lambda p: limit * sizes[p] % total, reverse=True)[:left]:
        shares[partition] += 1
    return {
        partition: _end_after(each, shares[partition], ends[partition], starts[partition])
        for partition, each in ranges.items()
    }


def _size(ranges: Sequence[OffsetRange]) -> int:
    return sum(offsets.count for offsets in ranges)


def _end_after(ranges: Sequence[OffsetRange], count: int, end: int, start: int) -> int:
    """Return the offset after the first `count` offsets of the ranges, at most `end`."""
    for offsets in ranges:
        if count < offsets.count:
            return max(start, offsets.low + count)
        count -= offsets.count
    return end


def _cut(ranges: Sequence[OffsetRange], size: int) -> Iterator[tuple[OffsetRange, ...]]:
    """Cut ranges into parts of `size` offsets; the last part may be smaller."""
    part: list[OffsetRange] = []
    room = size
    for offsets in ranges:
        start = offsets.low
        while start < offsets.end:
            end = min(offsets.end, start + room)
            part.append(OffsetRange(start, end))
            room -= end - start
            start = end
            if room == 0:
                yield tuple(part)
                part, room = [], size
    if part:
        yield tuple(part)
