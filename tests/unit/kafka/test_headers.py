"""Header names that the client library cannot read, and the one place where headers are read."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from dedupe_kafka.errors import RecordUnreadable
from dedupe_kafka.headers import before_unreadable, headers_of, headers_of_all

ROOT = Path(__file__).parents[3]
PRODUCT = (
    "crds",
    "filters",
    "growth",
    "httpd",
    "ids",
    "kafka",
    "kubectl",
    "local",
    "native",
    "operator",
    "pipeline",
    "router",
    "worker",
)
MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for part in PRODUCT
    for path in (ROOT / part).rglob("dedupe_*/**/*.py")
)
READS_HEADERS = "kafka/dedupe_kafka/headers.py"
SENDS_RECORDS = {
    # Each record that they send was checked by `before_unreadable` when it was read.
    "router/dedupe_router/output.py",
    "worker/dedupe_worker/kafka/producer.py",
}


class Record:
    """A consumer's record whose headers the client library cannot decode if `name` is not UTF-8."""

    def __init__(self, offset: int, name: bytes = b"h") -> None:
        self._offset = offset
        self._name = name
        self.asked = 0

    def topic(self) -> str:
        return "raw"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return self._offset

    def headers(self) -> list[tuple[str, bytes]]:
        self.asked += 1
        try:
            return [(self._name.decode(), b"v")]
        except UnicodeDecodeError as error:
            raise SystemError("returned a result with an exception set") from error


def test_an_unreadable_record_is_named_with_its_place() -> None:
    bad = Record(7, b"\xff")
    with pytest.raises(RecordUnreadable, match="offset 7 of raw/3") as raised:
        headers_of(bad)
    assert (raised.value.reason, raised.value.retriable) == ("RecordUnreadable", True)


def test_an_unreadable_record_among_others_is_named_with_its_place() -> None:
    assert headers_of_all([Record(5), Record(6)]) == [[("h", b"v")]] * 2
    with pytest.raises(RecordUnreadable, match="offset 7 of raw/3"):
        headers_of_all([Record(5), Record(6), Record(7, b"\xff"), Record(8)])


def test_records_before_an_unreadable_one_are_returned_and_it_is_asked_once() -> None:
    records = [Record(5), Record(6), Record(7, b"\xff"), Record(8)]
    readable, error = before_unreadable(records)  # type: ignore[arg-type] # stand-ins
    assert [record.offset() for record in readable] == [5, 6]
    assert "offset 7 of raw/3" in str(error)
    assert [record.asked for record in records] == [1, 1, 1, 0]


def calls_of_headers(source: str) -> Iterator[int]:
    """The lines at which a module calls `headers` of an object, or takes that method."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr == "headers":
            yield node.lineno


@pytest.mark.parametrize("name", MODULES)
def test_headers_are_read_in_one_place(name: str) -> None:
    source = (ROOT / name).read_text()
    if "confluent_kafka" not in source or name == READS_HEADERS or name in SENDS_RECORDS:
        return
    assert list(calls_of_headers(source)) == []


def test_a_module_that_reads_headers_is_found() -> None:
    assert list(calls_of_headers("a = record.headers()\nb = map(Message.headers, records)\n")) == [
        1,
        2,
    ]
