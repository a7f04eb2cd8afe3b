import re
from datetime import timedelta
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedupe_crds.quantity import (
    DURATION_PATTERN,
    SIZE_PATTERN,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)

MILLISECOND = timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1024", 1024),
        (1024, 1024),
        ("1k", 1000),
        ("1Ki", 1024),
        ("500M", 500_000_000),
        ("8Gi", 8 * 1024**3),
        ("1.5Gi", 3 * 1024**3 // 2),
        ("0.0001Ki", 1),
        ("7Ei", 7 * 1024**6),
    ],
)
def test_a_size_is_read_as_kubernetes_reads_it(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "8GB", "8K", "8gi", " 8Gi", "8Gi\n", "-1", "+1", "1.5", ".5Gi", "1e3", "8Ei", "٣Gi"],
)
def test_what_is_no_size_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        parse_size(text)


@settings(deadline=None)  # how long it takes is the machine's affair
@given(st.integers(0, 2**63 - 1))
def test_a_size_survives_writing_and_reading(size: int) -> None:
    written = format_size(size)
    assert parse_size(written) == size
    assert re.fullmatch(SIZE_PATTERN, written)


@settings(deadline=None)  # how long it takes is the machine's affair
@given(st.integers(0, 999), st.integers(0, 999_999_999), st.sampled_from(["Ki", "Mi", "Gi", "T"]))
def test_a_fraction_of_a_byte_counts_as_a_byte(whole: int, billionths: int, unit: str) -> None:
    number = f"{whole}.{billionths:09}"
    assert parse_size(f"{number}{unit}") == ceil(Fraction(number) * parse_size(f"1{unit}"))


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("28d", timedelta(days=28)),
        ("24h", timedelta(days=1)),
        ("1h30m", timedelta(minutes=90)),
        ("60s", timedelta(minutes=1)),
        ("25ms", timedelta(milliseconds=25)),
        ("1d1h1m1s1ms", timedelta(days=1, hours=1, minutes=1, seconds=1, milliseconds=1)),
        ("0s", timedelta()),
    ],
)
def test_a_duration_is_the_sum_of_its_parts(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text", ["", "28", "28 d", "1.5h", "-1d", "1w", "1D", "1h\n", "1us", "999999999999d"]
)
def test_what_is_no_duration_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        parse_duration(text)


@settings(deadline=None)  # how long it takes is the machine's affair
@given(st.integers(0, 10**15))
def test_a_duration_survives_writing_and_reading(milliseconds: int) -> None:
    duration = milliseconds * MILLISECOND
    written = format_duration(duration)
    assert parse_duration(written) == duration
    assert re.fullmatch(DURATION_PATTERN, written)
