"""A Kafka record as the tests see it: a message to send, and a record read back."""

from dataclasses import dataclass
from enum import IntEnum

Headers = tuple[tuple[str, bytes | None], ...]


class TimestampType(IntEnum):
    """The kinds of a record's timestamp, with the numbers of Kafka's clients."""

    NOT_AVAILABLE = 0
    CREATE_TIME = 1
    LOG_APPEND_TIME = 2


@dataclass(frozen=True, slots=True)
class Message:
    """A record to send. `timestamp_ms` is since 1970; None means the time of sending."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was read. `timestamp_ms` is since 1970."""

    partition: int
    offset: int
    timestamp_type: TimestampType
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
