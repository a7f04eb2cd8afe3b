"""Extract the ids of records: 16 binary bytes each (Tapjoy's layout).

The worker's loop, its catch-up and the bootstrap call the function that `extractor_for` returns. A canonical lowercase
UUID text becomes its own 16 bytes; anything else the 128-bit BLAKE2b hash of its bytes. Invariants:
  - Two spellings of one UUID (upper case, no dashes) are different ids: to treat them as one could drop a message that
    is no repeat.
  - A record without a usable id has no row in the result and is always passed through.
"""

import binascii
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
from confluent_kafka import Message

from dedupe_crds.spec.topics import IdFrom, IdSource
from dedupe_ids.batch import Rows
from dedupe_kafka.headers import headers_of_all
from dedupe_kafka.json_path import SingularPath

ID_BYTES: Final = 16

_UUID_CHARS: Final = 36
_DASHES: Final = (8, 13, 18, 23)
# Before the digits of a number in JSON. 0xff is in no UTF-8 text, so no string equals a number.
NUMBER_MARK: Final = b"\xff"
WHOLE_NUMBER: Final = "0|-?[1-9][0-9]{0,19}"
"""The pattern of a whole number in JSON, with no more digits than 64 bits have."""
_WHOLE_NUMBER: Final = re.compile(WHOLE_NUMBER.encode())


@dataclass(frozen=True, slots=True)
class PackedIds:
    """The ids of one batch: 16 bytes in `packed` for each position in `rows`."""

    rows: Rows
    packed: bytes


Record = Message
Extractor = Callable[[Sequence[Record]], PackedIds]


def pack_id(raw: bytes) -> bytes:
    """Return the 16 bytes of an id, from its text or bytes."""
    if len(raw) == _UUID_CHARS and all(raw[i] == 0x2D for i in _DASHES):
        try:
            packed = binascii.unhexlify(raw.replace(b"-", b""))
        except binascii.Error:
            packed = b""
        if len(packed) == ID_BYTES and raw == raw.lower():
            return packed
    return blake2b(raw, digest_size=ID_BYTES).digest()


def packed_meanings(text: bytes, source: IdSource) -> list[bytes]:
    """Return the packed ids that a text of a user may mean.

    In JSON the digits of a whole number of 64 bits mean the number as well as the text, which are two ids; the text
    comes first.
    """
    meanings = [pack_id(text)]
    if source.from_ is IdFrom.JSON_PATH and is_number(text):
        meanings.append(pack_id(NUMBER_MARK + text))
    return meanings


def is_number(text: bytes) -> bool:
    """Return whether a text is how JSON writes a whole number of 64 bits."""
    return _WHOLE_NUMBER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**64


def pack_ids(raw: Sequence[bytes | None]) -> PackedIds:
    """Pack a batch of raw ids; None and empty ones have no row."""
    packed = _pack_uuids(raw)
    if packed is not None:
        return PackedIds(np.arange(len(raw)), packed)
    rows = [i for i, each in enumerate(raw) if each]
    return PackedIds(np.array(rows, np.intp), b"".join(pack_id(raw[i] or b"") for i in rows))


def _pack_uuids(raw: Sequence[bytes | None]) -> bytes | None:
    """Pack all at once if every raw id is a canonical UUID text, else None.

    About 0.06 us an id instead of 1.
    """
    try:
        joined = b"".join(raw)  # type: ignore[arg-type] # None among them is what the except is for
    except TypeError:
        return None
    # The length of each is checked: a 35-byte and a 37-byte id can join to what looks like two UUIDs.
    if set(map(len, raw)) != {_UUID_CHARS}:  # type: ignore[arg-type] # none is None, or the join had failed
        return None
    grid = np.frombuffer(joined, np.uint8).reshape(-1, _UUID_CHARS)
    digits = joined.translate(None, b"-")
    if (
        len(digits) != 2 * ID_BYTES * len(raw)
        or not all((grid[:, column] == 0x2D).all() for column in _DASHES)
        or digits != digits.lower()
    ):
        return None
    try:
        return binascii.unhexlify(digits)
    except binascii.Error:
        return None


def extractor_for(source: IdSource) -> Extractor:
    """Return the function that extracts the ids of a batch, as `spec.id` says.

    Key: the record's key. Header: the last header of that name, as Kafka's clients read it. JsonPath: see
    `JsonId`. Content: key and value, not headers or timestamp, which differ between retries. A null or empty
    id, and content of a null key and a null value, count as no id.

    Raises InvalidConfig for a JSONPath that can't select exactly one value.
    """
    match source.from_:
        case IdFrom.KEY:
            return lambda records: pack_ids([r.key() for r in records])
        case IdFrom.HEADER:
            name = source.name
            return lambda records: pack_ids(_last_headers(records, name))
        case IdFrom.JSON_PATH:
            id_of = JsonId(source.path or "")
            return lambda records: pack_ids([id_of(r.value()) for r in records])
        case IdFrom.CONTENT:
            return _content_ids


class JsonId:
    """Callable that extracts the id from a record's JSON value.

    The path is of RFC 9535 and selects at most one node. A non-empty string is an id, by its UTF-8 bytes; so is an
    integer of 64 bits, and differs from a string of the same digits. Anything else is no id, see SingularPath.

    Raises InvalidConfig for a path that a manifest may not have.
    """

    def __init__(self, path: str) -> None:
        self._find = SingularPath(path, "spec.id.path")

    def __call__(self, value: bytes | None) -> bytes | None:
        """Return the id in a record's value; None if there is none."""
        found = self._find(value)
        if isinstance(found, str):
            return found.encode()
        return None if found is None else b"%s%d" % (NUMBER_MARK, found)


def _last_headers(records: Sequence[Record], name: str | None) -> list[bytes | None]:
    """Return the value of the last header of this name for each record."""
    found: list[bytes | None] = []
    for headers in headers_of_all(records):
        last = None
        for key, value in headers or ():
            if key == name:
                last = value
        found.append(last.encode() if isinstance(last, str) else last)
    return found


def _content_ids(records: Sequence[Record]) -> PackedIds:
    rows, packed = [], []
    for row, record in enumerate(records):
        key, value = record.key(), record.value()
        if key is None and value is None:
            continue
        # The key's length is hashed first: without it ("ab", "c") and ("a", "bc") would have the same hash.
        digest = blake2b(
            (-1 if key is None else len(key)).to_bytes(8, "big", signed=True), digest_size=ID_BYTES
        )
        digest.update(key or b"")
        digest.update(b"\0" if value is None else b"\1")
        digest.update(value or b"")
        rows.append(row)
        packed.append(digest.digest())
    return PackedIds(np.array(rows, np.intp), b"".join(packed))
