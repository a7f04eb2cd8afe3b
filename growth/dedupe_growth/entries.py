"""The entries of the epoch log, and their form in Kafka.

`log.py` reads them and `writer.py` appends them. One entry is one record of the topic `<output>-epochs`: its key is
the number of the entry from 0 on, its value JSON:

    {"entry": "prepare", "epoch": 1, "partitions": 6}                     workers for 6 partitions learn their ids
    {"entry": "switch", "epoch": 1, "partitions": 6, "inputs": {"a": 8}}  routers decide between 6; `a` has 8 partitions
    {"entry": "list", "epoch": 1, "inputs": {"a": 9, "b": 3}}             these may be routed as well
    {"entry": "cuts", "epoch": 1, "cuts": {"0": 1207, "1": 1180}}         where the old outputs end, for who learns
    {"entry": "done", "epoch": 1}                                         the workers of the new partitions run

A stream that ran before it got routers has two more. Its first epoch is the time without them:

    {"entry": "direct", "epoch": 0, "partitions": 4, "topic": "a", "topic_id": "In1"}    4 workers read `a` themselves
    {"entry": "handed-over", "epoch": 1,         their outputs end here, and routers begin here in the partitions of `a`
     "cuts": {"0": 1207}, "starts": {"0": {"offset": 900, "topic_id": "In1"}}}

Invariants: an entry is never changed or removed, and an entry that this release does not know stops its reader.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from dedupe_crds.spec.repartition import MOST_PARTITIONS
from dedupe_kafka.errors import StreamError

_MOST_INPUT_PARTITIONS: Final = 1_000_000


class EpochLogUnreadable(StreamError):
    """The epoch log has an entry that this release can't read, or lacks one."""

    retriable = True


def _bounded(inputs: Mapping[str, int]) -> Mapping[str, int]:
    if sum(inputs.values()) > _MOST_INPUT_PARTITIONS:
        raise ValueError(f"more than {_MOST_INPUT_PARTITIONS} input partitions")
    return inputs


# Bounded, because readers count up to them, and whoever has the topic can write any number.
Partitions = Annotated[int, Field(ge=0, le=MOST_PARTITIONS)]
Inputs = Annotated[Mapping[str, Annotated[int, Field(ge=0)]], AfterValidator(_bounded)]


class _Entry(BaseModel):
    """An entry: all have these fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epoch: int


class Prepare(_Entry):
    """The stream gets this many partitions: workers of the new ones learn their ids."""

    partitions: Partitions


class Switch(_Entry):
    """Routers decide between this many partitions; these inputs may be routed."""

    partitions: Partitions
    inputs: Inputs


class Listed(_Entry):
    """These inputs may be routed by this epoch as well: topics and partition counts."""

    inputs: Inputs


class Cuts(_Entry):
    """The output position of each old worker when it passed the epoch."""

    cuts: Mapping[int, int]


class Done(_Entry):
    """The workers of all new partitions run."""


class Direct(_Entry):
    """Until it got routers, workers of so many partitions have read this input topic."""

    partitions: Partitions
    topic: str
    topic_id: str


class RouterStart(BaseModel):
    """The offset at which routers begin in an input partition, and its topic's id."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    offset: int
    topic_id: str


class HandedOver(_Entry):
    """Each worker has handed its input partition over to the routers.

    `cuts` are the output positions at that border, `starts` the offsets in the input.
    """

    cuts: Mapping[int, int]
    starts: Mapping[int, RouterStart]


Entry = Prepare | Switch | Listed | Cuts | Done | Direct | HandedOver

_NAMES: Final[Mapping[str, type[_Entry]]] = {
    "prepare": Prepare,
    "switch": Switch,
    "list": Listed,
    "cuts": Cuts,
    "done": Done,
    "direct": Direct,
    "handed-over": HandedOver,
}


@dataclass(frozen=True, slots=True)
class Record:
    """Key and value of an entry in Kafka."""

    key: bytes
    value: bytes


def encode_entry(number: int, entry: Entry) -> Record:
    """Return the record of the entry with this number.

    >>> encode_entry(3, Done(epoch=1))
    Record(key=b'3', value=b'{"entry":"done","epoch":1}')
    """
    name = next(name for name, kind in _NAMES.items() if type(entry) is kind)
    fields = {"entry": name, **entry.model_dump(mode="json")}
    return Record(b"%d" % number, json.dumps(fields, separators=(",", ":")).encode())


def decode_entry(number: int, record: Record) -> Entry:
    """Return the entry that must have this number. Raises EpochLogUnreadable."""
    if record.key != b"%d" % number:
        raise EpochLogUnreadable(
            f"entry {number} of the epoch log is missing: found {record.key!r}; restore the topic from a copy, and "
            "let nothing but this project write to it"
        )
    try:
        fields = json.loads(record.value)
        kind = _NAMES[fields.pop("entry")]
        entry = kind.model_validate(fields)
    except (ValueError, KeyError, AttributeError, TypeError, ValidationError) as error:
        raise EpochLogUnreadable(
            f"entry {number} of the epoch log is none that this release knows, {record.value!r}: use the release "
            f"that wrote it, or a later one ({error})"
        ) from error
    assert isinstance(entry, Entry)  # noqa: S101 (for the type checker: all kinds are)
    return entry
