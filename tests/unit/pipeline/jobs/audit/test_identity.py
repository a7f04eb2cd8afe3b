"""Ids out of JSON, against what Python's own parser finds."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_pipeline.errors import PipelineError
from dedupe_pipeline.jobs.audit.identity import json_id
from tests.support.checker import id_sources
from tests.support.checker.record import Message
from tests.support.traffic import hostile

LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
NODES = st.recursive(
    LEAVES, lambda node: st.lists(node) | st.dictionaries(st.sampled_from(["a", "b", ""]), node)
)
REFERENCE = id_sources.json_id("a", 0)


@given(NODES)
def test_two_values_have_the_same_id_only_if_the_reference_says_so(node: object) -> None:
    value = json.dumps({"a": [node]}).encode(errors="surrogatepass")
    expected = REFERENCE(Message(0, None, value))

    found = json_id("$.a[0]")(value)

    assert (found is None) == (expected is None)
    if isinstance(expected, tuple):
        kind, content = expected
        assert found == (b"s" if kind == "text" else b"n") + str(content).encode()


@pytest.mark.parametrize("value", hostile.VALUES)
def test_hostile_values_have_an_id_only_if_the_reference_says_so(value: bytes | None) -> None:
    expected = id_sources.json_id("order", "id")(Message(0, None, value))

    assert (json_id("$.order.id")(value) is None) == (expected is None)


def test_a_negative_index_counts_from_the_end() -> None:
    assert json_id("$[-1]")(b'["a", "b"]') == b"sb"
    assert json_id("$[-3]")(b'["a", "b"]') is None


@pytest.mark.parametrize("path", ["$..id", "$.a[*]", "$[0, 1]", "$[?@.a]", "$.", "order.id"])
def test_a_path_that_may_select_several_values_or_none_is_refused(path: str) -> None:
    with pytest.raises(PipelineError, match=r"spec\.id\.path"):
        json_id(path)
