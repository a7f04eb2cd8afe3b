"""The metadata that routers commit with an input offset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedupe_growth.routed_offsets import RoutedOffset, decode_routed, encode_routed


@given(st.text("abcXYZ019-_", max_size=22), st.integers(0, 2**31))
def test_what_a_router_commits_is_read(topic_id: str, epoch: int) -> None:
    assert decode_routed(encode_routed(topic_id, epoch)) == RoutedOffset(topic_id, epoch)


@pytest.mark.parametrize(
    ("metadata", "topic_id"),
    [("In1", "In1"), ("", ""), (None, ""), ("In1:", "In1"), ("In1:x", "In1"), ("In1:-1", "In1")],
)
def test_metadata_without_an_epoch_is_of_a_release_before_them(
    metadata: str | None, topic_id: str
) -> None:
    assert decode_routed(metadata) == RoutedOffset(topic_id, epoch=0)
