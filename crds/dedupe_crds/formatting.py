"""Partition numbers, for people."""

from collections.abc import Iterable


def ranges(numbers: Iterable[int]) -> str:
    """Write numbers, those in a row as a range.

    >>> ranges([5, 0, 1, 2])
    '0-2, 5'
    """
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][-1] + 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    return ", ".join("-".join(map(str, span)) for span in spans)
