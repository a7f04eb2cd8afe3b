"""The value by which readers select records, from a header or from the JSON.

Invariant: the worker and `dedupe index-filters`, which put the values into filters, and the readers, which compare them
with the wanted ones, get the same bytes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from dedupe_crds.spec.filter_from import FilterFrom
from dedupe_kafka.errors import InvalidConfig
from dedupe_kafka.headers import headers_of
from dedupe_kafka.json_path import SingularPath

if TYPE_CHECKING:
    from dedupe_crds.spec.topics import OutputFilter

Headers = dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]]


class Record(Protocol):
    """A record with a value to extract, such as confluent-kafka's Message."""

    def headers(self) -> Headers | None: ...  # noqa: D102
    def value(self) -> bytes | None: ...  # noqa: D102
    def timestamp(self) -> tuple[int, int]: ...  # noqa: D102


ValueOf = Callable[[Record], bytes | None]


@dataclass(frozen=True, slots=True)
class FilterSource:
    """The source of the value: a header's name, or a JSON path in normalized spelling.

    >>> FilterSource.json_path("$.order.country") == FilterSource.json_path("$['order']['country']")
    True
    """

    kind: FilterFrom
    where: str

    @classmethod
    def header(cls, name: str) -> "FilterSource":
        """Take the value from the last header of a name."""
        return cls(FilterFrom.HEADER, name)

    @classmethod
    def json_path(cls, path: str, field: str = "the filter's path") -> "FilterSource":
        """Take text or a whole number from a JSON value.

        Raises InvalidConfig, which names `field`, for a path that is not singular.
        """
        return cls(FilterFrom.JSON_PATH, SingularPath(path, field).normalized)

    @classmethod
    def of(cls, manifest: "OutputFilter") -> "FilterSource":
        """Return the source in spec.output.filter. Raises InvalidConfig for a bad path."""
        if manifest.from_ is FilterFrom.HEADER:
            return cls.header(manifest.name or "")
        return cls.json_path(manifest.path or "", "spec.output.filter.path")

    @classmethod
    def parse(cls, text: str) -> "FilterSource":
        """Parse the text that `str` returns. Raises ValueError for any other text."""
        kind, _, where = text.partition(" ")
        source = cls(FilterFrom(kind), where)
        if source.kind is FilterFrom.JSON_PATH:
            try:
                SingularPath(where, "")
            except InvalidConfig as error:
                raise ValueError(str(error)) from error
        return source

    def __str__(self) -> str:
        return f"{self.kind.value} {self.where}"

    def extractor(self) -> ValueOf:
        """Return the function that extracts a record's value, None if it has none.

        A header's value is taken unchanged; of JSON, text in UTF-8 and whole numbers of 64 bits as decimal digits. A
        value that is absent, null or empty is None.
        """
        if self.kind is FilterFrom.HEADER:
            return _header_extractor(self.where)
        find = SingularPath(self.where, "the filter's path")

        def value_of(record: Record) -> bytes | None:
            found = find(record.value())
            return None if found is None else str(found).encode() or None

        return value_of

    def batch_extractor(self) -> Callable[[Iterable[Record]], list[bytes | None]]:
        """Return the function that extracts the values of many records, as `extractor`."""
        if self.kind is FilterFrom.HEADER:
            return partial(_last_headers, self.where)
        value_of = self.extractor()
        return lambda records: [value_of(record) for record in records]


def _last_headers(name: str, records: Iterable[Record]) -> list[bytes | None]:
    """Return the value of the last header of this name: a call for each takes longer."""
    found: list[bytes | None] = []
    for record in records:
        last: str | bytes | None = None
        for key, value in headers_of(record) or ():
            if key == name:
                last = value
        found.append((last.encode() if isinstance(last, str) else last) or None)
    return found


def _header_extractor(name: str) -> ValueOf:
    def value_of(record: Record) -> bytes | None:
        for key, value in reversed(headers_of(record) or ()):
            if key == name:
                return (value.encode() if isinstance(value, str) else value) or None
        return None

    return value_of


# Texts and bytes can be iterated, too: their letters, or numbers, are not the values that a caller means.
_ONE_VALUE: Final = (str, bytes, bytearray, memoryview)


def _as_bytes(value: object) -> bytes:
    match value:
        case str():
            return value.encode()
        case bytes() | bytearray() | memoryview():
            return bytes(value)
    raise TypeError(
        f"a wanted value is text or bytes, not {value!r}: write it as it is in the records, such as {str(value)!r}"
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """The values that a reader selects; `unfiltered`: records without a value as well.

    >>> Wanted.of(["DE", b"FR"], unfiltered=True).selects(b"DE")
    True
    """

    values: frozenset[bytes]
    unfiltered: bool

    @classmethod
    def of(
        cls, values: str | bytes | Iterable[str | bytes], *, unfiltered: bool = False
    ) -> "Wanted":
        """Build it from one value or several: text, encoded in UTF-8, or bytes.

        An empty value selects nothing. Raises TypeError for a value of another type.

        >>> Wanted.of("DE") == Wanted.of([b"DE"])
        True
        """
        several = [values] if isinstance(values, _ONE_VALUE) else values
        return cls(frozenset(value for value in map(_as_bytes, several) if value), unfiltered)

    def selects(self, value: bytes | None) -> bool:
        """Return whether a record with this value is wanted."""
        return self.unfiltered if value is None else value in self.values
