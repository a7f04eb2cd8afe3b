"""The value of a record: one meaning, wherever it is read."""

import json

import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from dedupe_crds.spec.filter_from import FilterFrom
from dedupe_crds.spec.topics import OutputFilter
from dedupe_filters.values import FilterSource, Headers, Wanted
from dedupe_kafka.errors import InvalidConfig

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=10)


def record(value: bytes | None = None, headers: Headers | None = None) -> Message:
    return Message(topic="t", partition=0, offset=0, value=value, headers=headers)


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        ([("country", b"DE")], b"DE"),
        ([("country", b"DE"), ("country", b"FR"), ("other", b"x")], b"FR"),
        ([("country", b"DE"), ("country", None)], None),
        ([("country", b"")], None),
        ([("country", "DE")], b"DE"),
        ([("Country", b"DE")], None),
        ([], None),
        (None, None),
    ],
)
def test_a_headers_value_is_that_of_the_last_with_the_name(
    headers: Headers | None, value: bytes | None
) -> None:
    assert FilterSource.header("country").extractor()(record(headers=headers)) == value


@pytest.mark.parametrize(
    ("document", "value"),
    [
        ('{"c": "DE"}', b"DE"),
        ('{"c": "ü"}', "ü".encode()),
        ('{"c": 49}', b"49"),
        ('{"c": -49}', b"-49"),
        ('{"c": "49"}', b"49"),
        ('{"c": 18446744073709551615}', b"18446744073709551615"),
        ('{"c": 18446744073709551616}', None),
        ('{"c": 1.0}', None),
        ('{"c": true}', None),
        ('{"c": ""}', None),
        ('{"c": null}', None),
        ('{"c": ["DE"]}', None),
        ("{}", None),
        ("no JSON", None),
    ],
)
def test_a_value_in_json_is_text_or_a_whole_number(document: str, value: bytes | None) -> None:
    assert FilterSource.json_path("$.c").extractor()(record(document.encode())) == value


def test_a_record_without_content_has_no_value() -> None:
    assert FilterSource.json_path("$.c").extractor()(record()) is None


@given(st.lists(TEXTS | st.integers(-3, 3), min_size=1, max_size=4))
def test_a_path_has_one_spelling_and_still_finds_what_it_found(steps: list[str | int]) -> None:
    path = "$" + "".join(f"[{json.dumps(step)}]" for step in steps)
    node: object = "here"
    for step in reversed(steps):
        node = [node] * 3 if isinstance(step, int) else {step: node}

    source = FilterSource.json_path(path)

    assert FilterSource.json_path(source.where) == source
    assert FilterSource.parse(str(source)) == source
    found = source.extractor()(record(json.dumps(node).encode()))
    assert found == (b"here" if 3 not in steps else None)


@pytest.mark.parametrize("text", ["", "Header", "Key x", "JsonPath $..a", "JsonPath"])
def test_a_text_that_names_no_source_is_refused(text: str) -> None:
    if text == "Header":
        assert FilterSource.parse(text) == FilterSource.header("")
    else:
        with pytest.raises(ValueError, match=r"."):
            FilterSource.parse(text)


def test_the_manifest_says_where_the_value_is() -> None:
    header = OutputFilter.model_validate({"from": "Header", "name": "country"})
    path = OutputFilter.model_validate({"from": "JsonPath", "path": "$.country"})

    assert FilterSource.of(header) == FilterSource.header("country")
    assert FilterSource.of(path) == FilterSource.json_path("$['country']")


def test_a_path_that_may_select_several_values_is_refused_by_its_field() -> None:
    several = OutputFilter.model_construct(from_=FilterFrom.JSON_PATH, path="$..country")

    with pytest.raises(InvalidConfig, match=r"spec\.output\.filter\.path: .* a JSONPath of names"):
        FilterSource.of(several)


@pytest.mark.parametrize("values", ["DE", b"DE", bytearray(b"DE"), memoryview(b"DE")])
def test_a_bare_text_or_bytes_is_one_wanted_value(values: str | bytes) -> None:
    assert Wanted.of(values) == Wanted.of(["DE"])


@pytest.mark.parametrize("values", [[68, 69], [None], [["DE"]], range(2)])
def test_a_wanted_value_that_is_neither_text_nor_bytes_is_refused(values: list[str]) -> None:
    with pytest.raises(TypeError, match=r"a wanted value is text or bytes, not .*: write"):
        Wanted.of(values)
