"""Encode ids as the 16-byte keys of the worker's store, and compute partitions.

The job `bootstrap` calls it. It is written from the description of the store's format, because neither package imports
the other; tests/component/spark/test_bootstrap.py checks that both agree.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.topics import IdFrom, IdSource
from dedupe_ids.column_ids import IdType
from dedupe_ids.jump_hash import partitions_of_ids, partitions_of_keys
from dedupe_kafka.partitioners import Partitioner, partitions_of
from dedupe_pipeline.jobs.audit.identity import json_id
from dedupe_pipeline.runtime.portable import arrow_column
from dedupe_pipeline.udfs.encode import encode_content, encode_id, encode_json


def record_id(source: IdSource) -> Column:
    """Return the 16 bytes of each record's id, null without an id."""
    match source.from_:
        case IdFrom.KEY:
            return encoded("key")
        case IdFrom.HEADER:
            named = F.filter("headers", lambda header: header["key"].eqNullSafe(F.lit(source.name)))
            return encoded(F.try_element_at(named, F.lit(-1))["value"])
        case IdFrom.JSON_PATH:
            extract = json_id(source.path or "")
            return _mapped(lambda value: encode_json(extract(value)), "value")
        case IdFrom.CONTENT:
            return _mapped(encode_content, "key", "value")


def packed_ids(raw: Column, id_type: IdType) -> Column:
    """Return the 16 bytes of ids of this type, from their texts or bytes."""
    # As the worker distinguishes numbers from strings.
    return encoded(F.concat(F.lit(b"\xff"), raw) if id_type is IdType.NUMBER else raw)


def encoded(column: Column | str) -> Column:
    """Return the 16 bytes of raw ids, null for a null or empty id."""
    return _mapped(lambda raw: encode_id(raw) if raw else None, column)


def _mapped(function: Callable[..., bytes | None], *columns: Column | str) -> Column:
    """Compute a column of bytes in Python; with Arrow, a whole batch passes at once."""

    def computed(*arrays: pa.Array) -> pa.Array:
        return pa.array(map(function, *(each.to_pylist() for each in arrays)), type=pa.binary())

    return arrow_column(computed, "binary", *columns)


def id_partition(count: int, ids: str) -> Column:
    """Return the partition, out of `count`, that routers choose; null without an id."""

    def computed(ids: pa.Array) -> pa.Array:
        found = np.zeros(len(ids), np.int32)
        known = ids.is_valid().to_numpy(zero_copy_only=False)
        found[known] = partitions_of_ids(b"".join(ids.drop_null().to_pylist()), count)
        return pa.array(found, mask=~known)

    return arrow_column(computed, "int", ids)


def key_partition(by: Partitioner | None, count: int, keys: str, ids: str) -> Column:
    """Return the partition, out of `count`, of each key, null without an id.

    `by` is the hash of producers, None for that of routers. An id without a key fails the job.
    """

    def computed(keys: pa.Array, ids: pa.Array) -> pa.Array:
        wanted = ids.is_valid()
        chosen = keys.filter(wanted)
        if chosen.null_count:
            given = "spec.repartition.by: Key" if by is None else "--partition-by"
            raise ValueError(f"a record without a key: {given} cannot determine its partition")
        known = wanted.to_numpy(zero_copy_only=False)
        found = np.zeros(len(ids), np.int32)
        of = chosen.to_pylist()
        found[known] = partitions_of_keys(of, count) if by is None else partitions_of(of, count, by)
        return pa.array(found, mask=~known)

    return arrow_column(computed, "int", keys, ids)
