"""Ids out of JSON: the same as Python's own parser finds, and no id out of anything else."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dedupe_ids.extract import JsonId
from dedupe_kafka.errors import InvalidConfig
from tests.support.checker.id_sources import json_id
from tests.support.checker.record import Message
from tests.support.traffic.hostile import VALUES

names = st.sampled_from(["order", "id", "", "0", "a.b", "ü", "'"])
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    | st.sampled_from(["1", 1, 1.0, 0, -0.0, "", "order"])
)
nodes = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
steps = st.lists(names | st.integers(-3, 3), min_size=1, max_size=4)


def path(of: Sequence[str | int]) -> str:
    """The steps in the bracket notation of RFC 9535."""
    return "$" + "".join(f"[{json.dumps(each, ensure_ascii=False)}]" for each in of)


def expected(value: bytes, of: Sequence[str | int]) -> bytes | None:
    found = json_id(*of)(Message(partition=0, key=None, value=value))
    match found:
        case ("text", str(text)):
            return text.encode()
        case ("number", int(number)):
            return b"\xff%d" % number
    return None


def put(node: object, of: Sequence[str | int]) -> object:
    """JSON with this node at the end of the steps."""
    for step in reversed(of):
        match step:
            case str():
                node = {"other": 1, step: node}
            case int() if step < 0:
                node = [node, *[0] * (-step - 1)]
            case _:
                node = [*[0] * step, node]
    return node


@given(nodes, steps, st.booleans(), st.booleans())
def test_it_finds_what_pythons_parser_finds(
    node: object,
    of: list[str | int],
    at_the_end: bool,
    ascii_only: bool,
) -> None:
    document = put(node, of) if at_the_end else node
    value = json.dumps(document, ensure_ascii=ascii_only).encode()
    assert (JsonId(path(of))(value) or None) == expected(value, of)


@given(st.binary())
@example(b'{"order": {"id": "\xff"}}')
@example(b"")
def test_bytes_that_are_no_json_have_no_id_and_raise_nothing(value: bytes) -> None:
    assert (JsonId("$.order.id")(value) or None) == expected(value, ["order", "id"])


@given(nodes, st.data())
def test_damaged_json_raises_nothing(node: object, data: st.DataObject) -> None:
    value = bytearray(json.dumps(put(node, ["order", "id"])).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(value)
    assert (JsonId("$.order.id")(damaged) or None) == expected(damaged, ["order", "id"])


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:40])
def test_hostile_values_have_the_id_that_the_judge_sees(value: bytes | None) -> None:
    assert (JsonId("$.order.id")(value) or None) == expected(value or b"", ["order", "id"])


def test_a_text_and_a_number_of_the_same_digits_are_different_ids() -> None:
    id_of = JsonId("$.id")
    assert id_of(b'{"id": "1"}') != id_of(b'{"id": 1}')


def test_a_root_that_is_a_list_can_be_asked() -> None:
    assert JsonId("$[-1].id")(b'[{"id": "a"}, {"id": "b"}]') == b"b"


@pytest.mark.parametrize(
    "text", ["", "id", "$", "$.", "$..id", "$.*", "$[*]", "$[0:2]", "$['a','b']", "$[?@.id]", "$["]
)
def test_a_path_that_is_none_or_selects_more_than_one_value_is_refused(text: str) -> None:
    with pytest.raises(
        InvalidConfig, match=r"(?s)^spec\.id\.path: .* must be a JSONPath of names and indices"
    ):
        JsonId(text)
