"""Values that several tests of the worker draw."""

from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import Message
from hypothesis import strategies as st

from tests.support.traffic.hostile import KEYS

raw_ids = st.one_of(
    st.uuids().map(lambda each: str(each).encode()),
    st.uuids().map(lambda each: str(each).upper().encode()),
    st.uuids().map(lambda each: each.hex.encode()),
    st.uuids().map(lambda each: each.bytes),
    st.sampled_from([key for key in KEYS if key]),
    st.binary(min_size=35, max_size=37),
    st.binary(min_size=1),
    # 36 characters, and a UUID but for some of them
    st.text("0123456789abcdefABCDEFg-", min_size=36, max_size=36).map(str.encode),
)
"""Ids as they come: canonical UUIDs, look-alikes, and any bytes."""

packed_id = st.one_of(
    st.binary(min_size=16, max_size=16),
    st.integers(0, 40).map(lambda number: number.to_bytes(16, "big")),
    st.integers(0, 40).map(lambda number: number.to_bytes(16, "little")),
)
"""Packed ids, many of them equal, and many ending or beginning with zero bytes."""


def message(
    offset: int, key: bytes | None = None, value: bytes | None = None, *, time_ms: int = 1
) -> Message:
    """A record of a topic, as Kafka's client hands it out."""
    return Message(
        topic="raw", partition=0, offset=offset, key=key, value=value, timestamp=(1, time_ms)
    )


@dataclass(frozen=True)
class FakeRecord:
    """What an id is taken from, with Kafka's method names."""

    own_key: bytes | None = None
    own_value: bytes | None = None
    own_headers: Sequence[tuple[str, bytes | None]] | None = None

    def key(self) -> bytes | None:
        return self.own_key

    def value(self) -> bytes | None:
        return self.own_value

    def headers(self) -> Sequence[tuple[str, bytes | None]] | None:
        return self.own_headers
