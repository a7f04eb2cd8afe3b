"""Numbers for people: the same in every table and message of the commands.

The command lines (kubectl, local) and the operator's conditions call it. A value that is not known is `UNKNOWN`.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from dedupe_crds.quantity import format_duration

UNKNOWN: Final = "-"
_DAY: Final = 86400
_HOUR: Final = 3600
_UNITS: Final = ("", "Ki", "Mi", "Gi", "Ti")


def ranges(numbers: Iterable[int], most: int = 20) -> str:
    """Write numbers such as partitions, with consecutive ones as a range.

    Of more than `most` ranges the first ones, and how many numbers the others have: of thousands of partitions a
    message would have no place for what is wrong with them.

    >>> ranges([5, 0, 1, 2]), ranges([0, 1, 4, 7, 8, 9], most=2)
    ('0-2, 5', '0-1, 4, and 3 more')
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs[:most]]
    more = sum(map(len, runs[most:]))
    return ", ".join([*shown, *([f"and {more} more"] if more else [])])


def listed(sentences: Sequence[str], most: int = 5) -> str:
    """Write several sentences one after the other, and how many more there are.

    >>> listed(["raw/0 waits", "raw/1 waits", "raw/2 waits", "raw/3 waits"], most=2)
    'raw/0 waits; raw/1 waits; and 2 more'
    """
    return "; ".join(first_of(sentences, most))


def first_of(sentences: Sequence[str], most: int) -> list[str]:
    """Return the first sentences, and a last one that says how many more there are.

    >>> first_of(["a", "b", "c"], 2), first_of(["a", "b"], 2)
    (['a', 'b', 'and 1 more'], ['a', 'b'])
    """
    more = len(sentences) - most
    return [*sentences[:most], *([f"and {more} more"] if more > 0 else [])]


def shortened(text: str, longest: int) -> str:
    """Return a text of at most so many characters; of a longer one the beginning.

    >>> shortened("a long story", 7), shortened("short", 7)
    ('a long…', 'short')
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def count(number: float | None) -> str:
    """Write a count or an offset.

    >>> count(1234567), count(0.4), count(None)
    ('1,234,567', '0', '-')
    """
    return UNKNOWN if number is None else f"{number:,.0f}"


def share(part: int | None, whole: int | None) -> str:
    """Write a count and, if the whole is known and not 0, its percentage.

    >>> share(1234, 24680), share(1234, None), share(None, None)
    ('1,234 (5.0 %)', '1,234', '-')
    """
    if part is None or not whole:
        return count(part)
    return f"{part:,} ({100 * part / whole:.1f} %)"


def duration(seconds: float | None) -> str:
    """Write a time in its two largest units.

    >>> duration(4 * 86400 + 3 * 3600 + 5), duration(75), duration(None)
    ('4d3h', '1m15s', '-')
    """
    if seconds is None:
        return UNKNOWN
    finest = _DAY if seconds > 50 * _DAY else _HOUR if seconds > _DAY else 60
    whole = int(seconds // finest * finest) if seconds >= _HOUR else int(seconds)
    return format_duration(timedelta(seconds=whole))


def size(number: float | None) -> str:
    """Write bytes, to three digits.

    >>> size(3 * 1024**3), size(1536), size(999), size(None)
    ('3Gi', '1.5Ki', '999', '-')
    """
    if number is None:
        return UNKNOWN
    power = min(max(int(number).bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    amount = number / 1024**power
    return f"{amount:.3g}{_UNITS[power]}" if amount < 1000 else f"{amount:.0f}{_UNITS[power]}"
