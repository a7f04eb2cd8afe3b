"""Which topics of a cluster are the input of a stream."""

from typing import Any

import pytest

from dedupe_crds.spec.stream import Spec
from dedupe_kafka.input_topics import matching_topics


def spec(given: dict[str, Any], **changes: Any) -> Spec:  # noqa: ANN401 # any field's value
    return Spec.model_validate(
        {
            "kafka": {"bootstrapServers": "kafka:9092"},
            "input": given,
            "output": {"topic": "orders-clean"},
            "id": {"from": "Key"},
            "repartition": {"partitions": 4},
            **changes,
        }
    )


def test_the_topics_that_a_manifest_names_are_the_input_whatever_there_is() -> None:
    assert matching_topics(["other"], spec({"topics": ["b", "a"]})) == ["a", "b"]
    assert matching_topics([], spec({"topic": "orders"})) == ["orders"]


def test_a_pattern_matches_whole_names() -> None:
    names = ["orders-us", "orders-eu", "old-orders-eu", "orders", "orders-", "orders-eu"]

    assert matching_topics(names, spec({"pattern": "orders-.+"})) == ["orders-eu", "orders-us"]


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(.*.*)*b"])
def test_no_pattern_takes_exponential_time(pattern: str) -> None:
    assert matching_topics(["a" * 249, "aab"], spec({"pattern": pattern})) == ["aab"]


def test_topics_of_kafka_and_of_the_stream_itself_are_never_its_input() -> None:
    routed = {
        field: {"policy": "Topic", "topic": f"orders-{field}"}
        for field in ("duplicates", "conflicts", "late")
    }
    own = ["", "-filters", "-owners", "-epochs", "-repartition"]
    names = [
        *(f"orders-clean{suffix}" for suffix in own),
        *(topic["topic"] for topic in routed.values()),
        "__consumer_offsets",
        "orders-eu",
    ]

    assert matching_topics(names, spec({"pattern": ".*"}, **routed)) == ["orders-eu"]


@pytest.mark.parametrize("named", [True, False])
def test_the_repartition_topic_is_no_input_by_its_own_name_either(named: bool) -> None:
    topic = {"topic": {"name": "orders-between"}} if named else {}
    found = spec({"pattern": "orders.*"}, repartition={"partitions": 4, **topic})

    assert ("orders-between" in matching_topics(["orders-between"], found)) is not named
