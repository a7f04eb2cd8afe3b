"""Divides what is to be read: among tasks, and among micro-batches. Values in, values out."""

from collections.abc import Iterator, Mapping, Sequence

from dedupe_filters.range_plan import Span


def split(spans: Mapping[int, Sequence[Span]], tasks: int) -> list[tuple[int, tuple[Span, ...]]]:
    """Divide the spans of partitions into about `tasks` shares of as many offsets, each of one partition.

    Every partition that has something to read has a share of its own at least.

    >>> split({0: [Span(0, 10)], 1: [Span(5, 6)]}, 1)
    [(0, (Span(start=0, end=10),)), (1, (Span(start=5, end=6),))]
    >>> [share for _, share in split({0: [Span(0, 10), Span(20, 30)]}, 2)]
    [(Span(start=0, end=10),), (Span(start=20, end=30),)]
    """
    total = sum(span.offsets for each in spans.values() for span in each)
    shares = []
    for partition, each in sorted(spans.items()):
        offsets = sum(span.offsets for span in each)
        parts = max(1, round(tasks * offsets / total)) if total else 1
        shares += [(partition, part) for part in _cut(each, -(-offsets // parts))]
    return shares


def ends_within(
    spans: Mapping[int, Sequence[Span]],
    ends: Mapping[int, int],
    starts: Mapping[int, int],
    limit: int,
) -> dict[int, int]:
    """Return where to end so that at most `limit` offsets are read, of each partition its share by size.

    `ends` is where each partition would end without a limit; nothing before its spans need be read.
    """
    sizes = {partition: sum(span.offsets for span in each) for partition, each in spans.items()}
    total = sum(sizes.values())
    if total <= limit:
        return dict(ends)
    shares = {partition: limit * size // total for partition, size in sizes.items()}
    # What rounding left over goes to those that lost by it, so that a small limit makes progress as well.
    left = limit - sum(shares.values())
    for partition in sorted(sizes, key=lambda p: limit * sizes[p] % total, reverse=True)[:left]:
        shares[partition] += 1
    return {
        partition: _end_after(each, shares[partition], ends[partition], starts[partition])
        for partition, each in spans.items()
    }


def _end_after(spans: Sequence[Span], offsets: int, end: int, start: int) -> int:
    """Where `offsets` offsets of the spans are read; what is skipped before the next one is done as well."""
    for span in spans:
        if offsets < span.offsets:
            return max(start, span.start + offsets)
        offsets -= span.offsets
    return end


def _cut(spans: Sequence[Span], size: int) -> Iterator[tuple[Span, ...]]:
    """Cut spans into parts of `size` offsets, the last with what is left."""
    part: list[Span] = []
    room = size
    for span in spans:
        start = span.start
        while start < span.end:
            end = min(span.end, start + room)
            part.append(Span(start, end))
            room -= end - start
            start = end
            if room == 0:
                yield tuple(part)
                part, room = [], size
    if part:
        yield tuple(part)
