"""The value that readers select records by, and where it is: a header, or a place in the record's JSON.

The same bytes for all who look: the worker and `dedupe index-filters`, which put them into filters, and the readers,
which compare them with what is wanted.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from dedupe_crds.spec.topics import FilterFrom, OutputFilter
from dedupe_kafka.errors import InvalidConfig
from dedupe_kafka.json_path import SingularPath

Headers = dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]]


class Record(Protocol):
    """What a value is taken from; confluent-kafka's Message is one."""

    def headers(self) -> Headers | None: ...  # noqa: D102
    def value(self) -> bytes | None: ...  # noqa: D102
    def timestamp(self) -> tuple[int, int]: ...  # noqa: D102


ValueOf = Callable[[Record], bytes | None]


@dataclass(frozen=True, slots=True)
class FilterSource:
    """Where the value is: `where` is the header's name, or the JSON path in its normalized spelling.

    >>> FilterSource.json_path("$.order.country") == FilterSource.json_path("$['order']['country']")
    True
    """

    kind: FilterFrom
    where: str

    @classmethod
    def header(cls, name: str) -> "FilterSource":
        """The last header of a name."""
        return cls(FilterFrom.HEADER, name)

    @classmethod
    def json_path(cls, path: str, field: str = "the filter's path") -> "FilterSource":
        """Text or a whole number in a JSON value. Raises InvalidConfig, which names `field`, for no singular path."""
        return cls(FilterFrom.JSON_PATH, SingularPath(path, field).normalized)

    @classmethod
    def of(cls, manifest: OutputFilter) -> "FilterSource":
        """As the manifest's spec.output.filter says. Raises InvalidConfig for a path that can't be used."""
        if manifest.from_ is FilterFrom.HEADER:
            return cls.header(manifest.name or "")
        return cls.json_path(manifest.path or "", "spec.output.filter.path")

    @classmethod
    def parse(cls, text: str) -> "FilterSource":
        """Read back what `str` gives. Raises ValueError for anything else."""
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
        """Return the function that takes a record's value.

        A header's value as it is; of JSON, text in UTF-8 and whole numbers of 64 bits as decimal digits. A record whose
        value is absent, null or empty has none: the function returns None.
        """
        if self.kind is FilterFrom.HEADER:
            return _header_extractor(self.where)
        find = SingularPath(self.where, "the filter's path")

        def value_of(record: Record) -> bytes | None:
            found = find(record.value())
            return None if found is None else str(found).encode() or None

        return value_of


def _header_extractor(name: str) -> ValueOf:
    def value_of(record: Record) -> bytes | None:
        for key, value in reversed(record.headers() or ()):
            if key == name:
                return (value.encode() if isinstance(value, str) else value) or None
        return None

    return value_of


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reader selects: records with one of the values, and, with `unfiltered`, those that have none.

    >>> Wanted.of(["DE", b"FR"], unfiltered=True).selects(b"DE")
    True
    """

    values: frozenset[bytes]
    unfiltered: bool

    @classmethod
    def of(cls, values: Iterable[str | bytes], *, unfiltered: bool = False) -> "Wanted":
        """Values as text, which is looked for in UTF-8, or as bytes; an empty one is no value and selects nothing."""
        as_bytes = (value.encode() if isinstance(value, str) else value for value in values)
        return cls(frozenset(value for value in as_bytes if value), unfiltered)

    def selects(self, value: bytes | None) -> bool:
        """Whether a record with this value is wanted."""
        return self.unfiltered if value is None else value in self.values
