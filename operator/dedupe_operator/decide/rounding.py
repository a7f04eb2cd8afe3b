"""Round volatile numbers, so that an idle stream causes no status writes.

The partition status and the snapshot runner call it.
"""

from datetime import timedelta

_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)
_STEP = timedelta(minutes=10)


def coarse_count(count: int) -> int:
    """Round down to two significant digits.

    >>> coarse_count(7), coarse_count(123456)
    (7, 120000)
    """
    magnitude = int("1" + "0" * max(0, len(str(count)) - 2))
    return count - count % magnitude


def rounded_size(size: int) -> str:
    """Write bytes for people, to three digits.

    >>> rounded_size(123), rounded_size(12_900_000), rounded_size(3 * 1024**3)
    ('123', '12.3Mi', '3Gi')
    """
    scaled = float(size)
    for unit in ("", "Ki", "Mi", "Gi", "Ti"):
        if scaled < 1000 or unit == "Ti":
            break
        scaled /= 1024
    return f"{scaled:.3g}{unit}"


def coarse_age(age: timedelta) -> timedelta:
    """Round down to days (from two days on), hours (from two) or ten minutes.

    >>> coarse_age(timedelta(days=3, hours=5)), coarse_age(timedelta(minutes=45))
    (datetime.timedelta(days=3), datetime.timedelta(seconds=2400))
    """
    step = _DAY if age >= 2 * _DAY else _HOUR if age >= 2 * _HOUR else _STEP
    return age - age % step
