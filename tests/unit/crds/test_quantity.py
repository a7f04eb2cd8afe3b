import re
from collections.abc import Iterator
from datetime import timedelta
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
import re2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dedupe_crds.openapi import CUSTOM_RESOURCES
from dedupe_crds.quantity import (
    DURATION_PATTERN,
    SIZE_PATTERN,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)

MILLISECOND = timedelta(milliseconds=1)


def patterns(node: dict[str, Any]) -> Iterator[str]:
    """The pattern of each duration in a schema, as the API server gets it."""
    if node.get("format") == "duration":
        yield node["pattern"]
    for child in (
        *node.get("properties", {}).values(),
        node.get("items"),
        node.get("additionalProperties"),
    ):
        if isinstance(child, dict):
            yield from patterns(child)


DURATION_PATTERNS = {pattern for each in CUSTOM_RESOURCES for pattern in patterns(each.schema())}


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
        ("4w", timedelta(days=28)),
        ("28d", timedelta(days=28)),
        ("24h", timedelta(days=1)),
        ("1h30m", timedelta(minutes=90)),
        ("60s", timedelta(minutes=1)),
        ("25ms", timedelta(milliseconds=25)),
        (
            "1w1d1h1m1s1ms",
            timedelta(weeks=1, days=1, hours=1, minutes=1, seconds=1, milliseconds=1),
        ),
        ("0s", timedelta()),
    ],
)
def test_a_duration_is_the_sum_of_its_parts(text: str, duration: timedelta) -> None:
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text", ["", "28", "28 d", "1.5h", "-1d", "1W", "1D", "1h\n", "1us", "999999999999w"]
)
def test_what_is_no_duration_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        parse_duration(text)


@settings(deadline=None)  # how long it takes is the machine's affair
@given(
    st.from_regex(r"\A([0-9]{1,3}(ms|s|m|h|d|w)){0,7}\Z") | st.text("019 .-wdhmsDWy\n", max_size=12)
)
@example("4w")
@example("1w1d1h1m1s1ms")
@example("1w1d1h1m1s1ms1s")
@example("1y")
def test_the_api_server_reads_the_same_texts_as_durations(text: str) -> None:
    """Each duration of a CustomResourceDefinition has one pattern, which Go's RE2 matches."""
    (pattern,) = DURATION_PATTERNS
    if re2.search(pattern, text):
        assert parse_duration(text) >= timedelta()
    else:
        with pytest.raises(ValueError, match="is not a duration"):
            parse_duration(text)


@settings(deadline=None)  # how long it takes is the machine's affair
@given(st.integers(0, 10**15))
def test_a_duration_survives_writing_and_reading(milliseconds: int) -> None:
    duration = milliseconds * MILLISECOND
    written = format_duration(duration)
    assert parse_duration(written) == duration
    assert re.fullmatch(DURATION_PATTERN, written)
