"""Spans of offsets as the command line has them, and as they bound an input."""

import pytest

from dedupe_kafka.offsets import TopicOffsets
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.jobs.audit.bounds import Bounds, parse_span

CONNECTION = KafkaConnection(bootstrap_servers="not-asked:9092")
ORDERS, RETURNS = (
    TopicOffsets(topic=name, id="1", lows={0: 5, 1: 0}, ends={0: 50, 1: 20})
    for name in ("orders", "returns")
)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("3:100-200", ((None, 3), (100, 200))),
        ("3:100-", ((None, 3), (100, None))),
        ("3:-200", ((None, 3), (0, 200))),
        ("orders-eu.v1/0:7-", (("orders-eu.v1", 0), (7, None))),
    ],
)
def test_a_span_names_a_partition_and_its_offsets(text: str, span: object) -> None:
    assert parse_span(text) == span


@pytest.mark.parametrize("text", ["", "3", "3:5", "orders:1-2", "3:5-5", "3:5-4", "-1:0-1"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not of the form|has no offset"):
        parse_span(text)


def test_only_the_named_partitions_are_judged_between_their_offsets() -> None:
    bounds = Bounds(spans=dict([parse_span("0:10-30")]))

    [first] = bounds.first_offsets(CONNECTION, [ORDERS])
    before = bounds.last_offsets([ORDERS], {("orders", 0): 50, ("orders", 1): 20})

    assert first.lows == {0: 10, 1: 20}
    assert first.ends == ORDERS.ends
    assert before == {("orders", 0): 30, ("orders", 1): 20}


def test_a_span_never_reaches_beyond_what_is_there() -> None:
    for text, low in (("0:0-", 5), ("0:900-", 50)):
        [first] = Bounds(spans=dict([parse_span(text)])).first_offsets(CONNECTION, [ORDERS])
        assert first.lows[0] == low


@pytest.mark.parametrize("text", ["2:0-1", "returns/5:0-1", "nowhere/0:0-1", "0:0-1"])
def test_a_partition_that_is_none_or_several_is_refused(text: str) -> None:
    bounds = Bounds(spans=dict([parse_span(text)]))

    with pytest.raises(RequestRefused, match="TOPIC/PARTITION:FROM-TO"):
        bounds.first_offsets(CONNECTION, [ORDERS, RETURNS])
