"""What counts as drift, and what is somebody else's affair."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_operator.decide.drift import has_wanted_hash, is_as_wanted, with_wanted_hash
from dedupe_operator.kubernetes.names import WANTED_HASH, Object

WANTED: Object = with_wanted_hash(
    {
        "metadata": {"name": "a", "labels": {"ours": "1"}},
        "spec": {
            "replicas": 0,
            "paused": False,
            "args": ["--one", "--two"],
            "resources": {"requests": {"cpu": "1000m", "memory": "1Gi"}},
            "ports": [{"name": "http", "port": 80}, {"name": "metrics", "port": 81}],
        },
    }
)


def live(**spec: Any) -> Object:  # noqa: ANN401 # any JSON value
    found = deepcopy(WANTED)
    found["spec"] |= spec
    return found


def test_an_object_as_it_was_applied_is_as_wanted() -> None:
    assert is_as_wanted(live(), WANTED)


def test_what_others_add_is_theirs() -> None:
    found = live(
        revisionHistoryLimit=10,
        ports=[
            {"name": "sidecar", "port": 99},
            {"name": "metrics", "port": 81, "protocol": "TCP"},
            {"name": "http", "port": 80, "nodePort": 30000},
        ],
    )
    found["metadata"]["labels"]["theirs"] = "2"
    found["metadata"]["annotations"]["theirs"] = "3"
    found["status"] = {"replicas": 1}
    assert is_as_wanted(found, WANTED)


@pytest.mark.parametrize(
    "requests",
    [
        {"cpu": "1", "memory": "1073741824"},
        {"cpu": "1000m", "memory": "1024Mi"},
        {"cpu": "1.0", "memory": "1Gi", "ephemeral-storage": "1Gi"},
    ],
)
def test_a_quantity_written_in_another_way_is_the_same(requests: dict[str, str]) -> None:
    assert is_as_wanted(live(resources={"requests": requests}), WANTED)


@pytest.mark.parametrize(
    "spec",
    [
        {"replicas": 1},
        {"replicas": None},
        {"paused": True},
        {"args": ["--two", "--one"]},
        {"args": ["--one"]},
        {"args": ["--one", "--two", "--three"]},
        {"args": None},
        {"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}},
        {"resources": {"requests": {"cpu": "1", "memory": "1G"}}},
        {"resources": {"requests": {"memory": "1Gi"}}},
        {"resources": "none"},
        {"ports": [{"name": "http", "port": 80}]},
        {"ports": [{"name": "http", "port": 8080}, {"name": "metrics", "port": 81}]},
        {"ports": {}},
    ],
    ids=str,
)
def test_a_field_that_was_edited_or_removed_is_drift(spec: dict[str, Any]) -> None:
    assert not is_as_wanted(live(**spec), WANTED)


def test_a_field_that_is_no_longer_wanted_shows_by_the_hash() -> None:
    with_less = with_wanted_hash({"metadata": {"name": "a"}, "spec": {"replicas": 0}})
    assert not is_as_wanted(live(), with_less)


def test_texts_that_only_look_like_quantities_are_compared_as_texts() -> None:
    wanted = with_wanted_hash({"metadata": {"name": "a"}, "data": {"id": "10abc", "word": "Mi"}})
    assert not is_as_wanted({**wanted, "data": {"id": "10abd", "word": "Mi"}}, wanted)
    assert not is_as_wanted({**wanted, "data": {"id": "10abc", "word": "Ki"}}, wanted)


def test_a_stamp_is_the_same_in_whatever_order_fields_are_given() -> None:
    one = with_wanted_hash({"metadata": {"name": "a"}, "spec": {"b": 1, "c": 2}})
    assert with_wanted_hash({"spec": {"c": 2, "b": 1}, "metadata": {"name": "a"}}) == one


def test_a_stamp_keeps_the_annotations_and_leaves_the_given_object_alone() -> None:
    given_object: Object = {"metadata": {"name": "a", "annotations": {"b": "c"}}}
    annotations = with_wanted_hash(given_object)["metadata"]["annotations"]
    assert annotations.keys() == {"b", WANTED_HASH}
    assert given_object == {"metadata": {"name": "a", "annotations": {"b": "c"}}}


def test_what_the_operator_made_is_known_by_its_stamp() -> None:
    assert has_wanted_hash(WANTED)
    assert not has_wanted_hash({"metadata": {"name": "a", "annotations": {"b": "c"}}})
    assert not has_wanted_hash({"metadata": {"name": "a"}})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)


@given(json_values)
def test_anything_applied_is_as_wanted_afterwards(spec: object) -> None:
    wanted = with_wanted_hash({"metadata": {"name": "a"}, "spec": spec})
    assert is_as_wanted(deepcopy(wanted), wanted)


@pytest.mark.parametrize("empty", [None, "", [], {}, False], ids=repr)
def test_what_is_empty_may_be_left_out(empty: object) -> None:
    wanted = with_wanted_hash({"metadata": {"name": "a"}, "spec": {"readOnly": empty}})
    assert is_as_wanted({**wanted, "spec": {}}, wanted)
    assert not is_as_wanted({**wanted, "spec": {"readOnly": True}}, wanted)


def test_a_quantity_may_be_written_as_a_number() -> None:
    wanted = with_wanted_hash({"metadata": {"name": "a"}, "limits": {"cpu": 1, "memory": "1Gi"}})
    assert is_as_wanted({**wanted, "limits": {"cpu": "1", "memory": "1Gi"}}, wanted)
    assert not is_as_wanted({**wanted, "limits": {"cpu": "2", "memory": "1Gi"}}, wanted)
