"""The paths that compile are those that the manifest accepts, and that RE2 accepts in the API server."""

import jsonpath
import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from dedupe_crds.json_path import SINGULAR_PATH, is_singular_path
from dedupe_kafka.errors import InvalidConfig
from dedupe_kafka.json_path import SingularPath

CHARACTERS = "$.[]'\"aé10-_ \t\n\\u/@`{~*,:?\x01\x7f\x80\u2028\ufffd\U0001f600"
SEGMENTS = ["..", "'a'", '["b"]', "['c']", "[0]", "[-1]", ".x"]
ESCAPES = ["\\n", "\\'", '\\"', "\\u00e9", "\\ud83d", "\\ude00"]
PARTS = st.sampled_from([*CHARACTERS, *SEGMENTS, *ESCAPES])


def compiles(path: str) -> bool:
    """Return whether the library finds one value at most, below the root."""
    try:
        query = jsonpath.compile(path, strict=True)
    except jsonpath.JSONPathError:
        return False
    return isinstance(query, jsonpath.JSONPath) and query.singular_query() and bool(query.segments)


@given(st.lists(PARTS, max_size=6).map(lambda parts: "$" + "".join(parts)))
def test_model_api_server_and_compiler_accept_the_same_paths(path: str) -> None:
    accepted = is_singular_path(path)

    assert (re2.fullmatch(SINGULAR_PATH, path) is not None) == accepted
    assert compiles(path) == accepted
    if accepted:
        SingularPath(path, "spec.id.path")


@pytest.mark.parametrize("path", ["", "a", "$", "$..id", "$.a[*]", "$.a b", "$.a\n", "$[?@.a]"])
def test_another_path_is_refused_by_its_field(path: str) -> None:
    with pytest.raises(InvalidConfig, match=r"^spec\.id\.path: .* must be a JSONPath of names"):
        SingularPath(path, "spec.id.path")
