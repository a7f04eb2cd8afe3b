"""Numbers and times in the form people read them."""

from datetime import timedelta

from dedupe_crds.quantity import format_duration

UNKNOWN = "-"
_UNITS = ("", "Ki", "Mi", "Gi", "Ti")


def count(number: float | None) -> str:
    """Write a number.

    >>> count(1234567), count(0.4), count(None)
    ('1,234,567', '0', '-')
    """
    return UNKNOWN if number is None else f"{number:,.0f}"


def duration(seconds: float | None) -> str:
    """Write a time in its two largest units.

    >>> duration(4 * 86400 + 3 * 3600 + 5), duration(75), duration(None)
    ('4d3h', '1m15s', '-')
    """
    if seconds is None:
        return UNKNOWN
    finest = 86400 if seconds > 50 * 86400 else 3600 if seconds > 86400 else 60
    whole = int(seconds // finest * finest) if seconds >= 3600 else int(seconds)
    return format_duration(timedelta(seconds=whole))


def share(part: int | None, whole: int | None) -> str:
    """Write a count and, if it is known of how many, its share.

    >>> share(1234, 24680), share(1234, None), share(None, None)
    ('1,234 (5.0 %)', '1,234', '-')
    """
    if part is None or not whole:
        return count(part)
    return f"{part:,} ({100 * part / whole:.1f} %)"


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
