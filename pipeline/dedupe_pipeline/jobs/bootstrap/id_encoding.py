"""The keys of the worker's store, 16 bytes for each id, and partitions as producers choose them.

Written from the description of the store's format, since neither package imports the other;
tests/component/spark/test_bootstrap.py holds the two together.
"""

import binascii
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)
from pyspark.sql.pandas.functions import arrow_udf

from dedupe_crds.spec.topics import IdFrom, IdSource
from dedupe_kafka.partitioners import Partitioner, partitions_of
from dedupe_pipeline.jobs.audit.identity import json_id

_UUID_CHARS = 36
_DASHES = (8, 13, 18, 23)


def pack_id(raw: bytes) -> bytes:
    """An id's 16 bytes in the store: a canonical UUID text's own, else a hash.

    >>> pack_id(b"00000000-0000-0000-0000-0000000000ff").hex()
    '000000000000000000000000000000ff'
    """
    if len(raw) == _UUID_CHARS and all(raw[place] == 0x2D for place in _DASHES):
        digits = raw.replace(b"-", b"")
        try:
            packed = binascii.unhexlify(digits)
        except binascii.Error:
            packed = b""
        if len(packed) == 16 and raw == raw.lower():
            return packed
    return blake2b(raw, digest_size=16).digest()


def pack_content(key: bytes | None, value: bytes | None) -> bytes | None:
    """The id of a record by its content, None of one that has none."""
    if key is None and value is None:
        return None
    length = -1 if key is None else len(key)
    head = length.to_bytes(8, "big", signed=True) + (key or b"")
    body = b"\0" if value is None else b"\1" + value
    return blake2b(head + body, digest_size=16).digest()


def pack_json(found: bytes | None) -> bytes | None:
    """The id in the terms of `json_id`, which marks strings by s and numbers by n."""
    if found is None:
        return None
    return pack_id(found[1:] if found[:1] == b"s" else b"\xff" + found[1:])


def record_id(source: IdSource) -> Column:
    """The 16 bytes of each record of a topic, null of one without an id."""
    match source.from_:
        case IdFrom.KEY:
            return packed("key")
        case IdFrom.HEADER:
            named = F.filter("headers", lambda header: header["key"].eqNullSafe(F.lit(source.name)))
            return packed(F.try_element_at(named, F.lit(-1))["value"])
        case IdFrom.JSON_PATH:
            extract = json_id(source.path or "")
            return _mapped(lambda value: pack_json(extract(value)), "value")
        case IdFrom.CONTENT:
            return _mapped(pack_content, "key", "value")


def packed(column: Column | str) -> Column:
    """The 16 bytes of raw ids, null where there is none or an empty one."""
    return _mapped(lambda raw: pack_id(raw) if raw else None, column)


def _mapped(function: Callable[..., bytes | None], *columns: Column | str) -> Column:
    """A column of bytes out of others, in Python; as Arrow, a batch crosses at once."""

    def one(values: pa.Array) -> pa.Array:
        return pa.array(map(function, values.to_pylist()), type=pa.binary())

    def two(first: pa.Array, second: pa.Array) -> pa.Array:
        pairs = zip(first.to_pylist(), second.to_pylist(), strict=True)
        return pa.array((function(*pair) for pair in pairs), type=pa.binary())

    by_number: dict[int, Callable[..., Any]] = {1: one, 2: two}
    column: Column = arrow_udf("binary")(by_number[len(columns)])(*columns)  # type: ignore[call-overload] # its kind is in the types
    return column


def partition_by(partitioner: Partitioner, count: int, column: str) -> Column:
    """The partition, out of `count`, of each key; a null among them fails the job."""

    def computed(keys: pa.Array) -> pa.Array:
        if keys.null_count:
            raise ValueError("a record without a key: --partition-by can't tell its partition")
        return pa.array(partitions_of(keys.to_pylist(), count, partitioner), type=pa.int32())

    found: Column = arrow_udf("int")(computed)(column)  # type: ignore[call-overload] # its kind is in the types
    return found
