"""Read the headers of records, and name a record that cannot be read.

Every part reads headers here; tests/unit/kafka/test_headers.py checks that. Invariant: a record whose headers could not
be read is never asked for them again. A second call of the client library returns a list with a name that is NULL, and
its producer takes that list.
"""

from collections.abc import Sequence
from operator import methodcaller
from typing import Any, Final, Protocol

from confluent_kafka import Message

from dedupe_kafka.errors import RecordUnreadable

Header = tuple[str, bytes | None]

# Not `record.headers()`: Python's specialised calls do not check that the library has set an exception and returned a
# list nevertheless. The error then comes at a later record, after this one was sent.
_read: Final = methodcaller("headers")
# The library raises SystemError; its cause is the UnicodeDecodeError.
_UNREADABLE: Final = (SystemError, UnicodeError)


class HasHeaders(Protocol):
    """A record with headers, such as the client library's Message."""

    def headers(self) -> Any: ...  # noqa: ANN401, D102 (the library's type is wider than what a consumer returns)


def headers_of(record: HasHeaders) -> list[Header] | None:
    """Return the headers of a record; None if it has none.

    Raises RecordUnreadable for a header name that is not UTF-8.
    """
    return headers_of_all([record])[0]


def headers_of_all(records: Sequence[HasHeaders]) -> list[list[Header] | None]:
    """Return the headers of each record, as `headers_of` does."""
    found: list[list[Header] | None] = []
    try:
        # On an error the list keeps what came before it.
        found.extend(map(_read, records))
    except _UNREADABLE as error:
        raise _unreadable(records[len(found)]) from error
    return found


def before_unreadable(
    records: Sequence[Message],
) -> tuple[Sequence[Message], RecordUnreadable | None]:
    """Return the records before the first unreadable one, and the error that names it.

    All records and None if each can be read. Those that are returned may be asked for their headers at any time.
    """
    readable = 0
    try:
        for _ in map(_read, records):
            readable += 1
    except _UNREADABLE:
        return records[:readable], _unreadable(records[readable])
    return records, None


def _unreadable(record: Any) -> RecordUnreadable:  # noqa: ANN401 (HasHeaders, and with it what names its place)
    return RecordUnreadable(
        f"the record at offset {record.offset()} of {record.topic()}/{record.partition()} has a header whose name is "
        "not UTF-8, which the client library cannot read. No record is skipped, so this partition waits; let its "
        "producer write the name as UTF-8, and move on behind the record (docs/operations.md)"
    )
