from typing import Any

import pytest

from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.stream import DedupeStream
from tests.unit.crds.manifests import changed


def stream(**changes: Any) -> DedupeStream:  # noqa: ANN401 # any field's value
    given = {f"spec.{path}": value for path, value in changes.items()}
    return parse_manifest(changed(given), "orders.yaml")


def test_the_workers_read_the_input_unless_there_is_a_repartition() -> None:
    assert stream().spec.worker_input == "orders"
    assert stream(repartition={"partitions": 4}).spec.worker_input == "orders-clean-repartition"
    named = {"partitions": 4, "topic": {"name": "between"}}
    assert stream(repartition=named).spec.worker_input == "between"


def test_an_input_is_shown_by_its_names_or_its_pattern() -> None:
    stage = {"partitions": 4}
    assert stream().spec.input.shown == "orders"
    several = stream(input={"topics": ["a", "b"]}, repartition=stage).spec.input
    assert (several.shown, several.names) == ("a, b", ("a", "b"))
    pattern = stream(input={"pattern": "orders-.*"}, repartition=stage).spec.input
    assert (pattern.shown, pattern.names) == ("/orders-.*/", ())
    with pytest.raises(ValueError, match="values to unpack"):
        _ = several.single


def test_the_routers_have_a_consumer_group_that_is_not_the_workers() -> None:
    orders = stream(repartition={"partitions": 4})
    assert orders.consumer_group == "default.orders"
    assert orders.router_group == "default.orders.routers"
