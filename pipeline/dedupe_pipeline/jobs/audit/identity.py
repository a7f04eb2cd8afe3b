"""Compute the identity of records: equal ids, and equality byte for byte.

The job `audit` calls it. Invariant: it is written from the manifest's definition and shares no code with the worker,
because only the agreement of independent implementations is evidence.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.topics import IdFrom, IdSource
from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.runtime.portable import arrow_column
from dedupe_pipeline.udfs.json_id import extractor

# The worker adds these two headers, in this order, to a record that it writes to the late topic.
_OF_LATE = ("dedupe-late", "dedupe-position")


def as_in_the_input(routed: DataFrame) -> DataFrame:
    """Return the late ones of routed records, without the worker's headers."""
    added = [F.try_element_at("headers", F.lit(at))["key"] for at in (-2, -1)]
    late = [key.eqNullSafe(F.lit(name)) for key, name in zip(added, _OF_LATE, strict=True)]
    count = F.size("headers") - len(_OF_LATE)
    return routed.where(late[0] & late[1]).withColumn("headers", F.slice("headers", 1, count))


def with_identity(records: DataFrame, source: IdSource, keep: Sequence[str] = ()) -> DataFrame:
    """Replace key, value and headers by digests; one row per record, as before.

    Columns: `partition`, `offset`, `time_ms` (since 1970), `digest` (binary, 16 bytes, equal only
    for records equal in key, value, headers in order, and timestamp), `has_id`, and `ident` (binary,
    16 bytes: equal for records with the same id; the digest for a record without an id); and those to `keep`.
    """
    identified = records.select(
        *keep,
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("time_ms"),
        _digest_of_record().alias("digest"),
        F.xxhash64(F.concat(_field(F.col("key")), _field(F.col("value")))).alias("body"),
        _id_bytes(source).alias("id"),
    )
    ident = F.when(F.col("id").isNotNull(), ident_of(F.col("id")))
    return identified.select(
        *keep,
        "partition",
        "offset",
        "time_ms",
        "digest",
        "body",
        F.col("id").isNotNull().alias("has_id"),
        F.coalesce(ident, F.col("digest")).alias("ident"),
    )


def ident_of(identity: Column) -> Column:
    """Return the `ident` of an id.

    The prefix "i" separates ids from digests: a digested text begins with digits or "-".
    """
    return _sha256(F.concat(_bytes("i"), identity))


def hash_of_key() -> Column:
    """Return a hash of the record's key; null without one."""
    return _sha256(_unless_empty(F.col("key")))


def json_id(path: str) -> Callable[[bytes | None], bytes | None]:
    """Return the function that extracts the id at an RFC 9535 singular path.

    It returns None if there is no id. An id is a non-empty string, or an integer of 64 bits, which never equals a
    string; nothing else is an id.

    Raises:
        RequestRefused: the path is not valid or may select several values.
    """
    return extractor(_steps(path))


def _id_bytes(source: IdSource) -> Column:
    key, value = F.col("key"), F.col("value")
    match source.from_:
        case IdFrom.KEY:
            return _unless_empty(key)
        case IdFrom.HEADER:
            named = F.filter("headers", lambda header: header["key"].eqNullSafe(F.lit(source.name)))
            return _unless_empty(F.try_element_at(named, F.lit(-1))["value"])
        case IdFrom.JSON_PATH:
            return _json_column(source.path or "")
        case IdFrom.CONTENT:
            some = key.isNotNull() | value.isNotNull()
            return F.when(some, F.concat(_field(key), _field(value)))


def _json_column(path: str) -> Column:
    """Return the column of ids in JSON, computed in Python.

    No built-in distinguishes 1 from "1" and 1.0 and refuses what strict JSON refuses: get_json_object returns text for
    all three; the variant type refuses a repeated name and accepts an integer of any size. With Arrow, a whole batch
    passes to Python and back.
    """
    extract = json_id(path)

    def ids(values: pa.Array) -> pa.Array:
        return pa.array(map(extract, values.to_pylist()), type=pa.binary())

    return arrow_column(ids, "binary", "value")


def _steps(path: str) -> list[str | int]:
    # Slow to import, and most streams have no path.
    import jsonpath  # noqa: PLC0415
    from jsonpath.selectors import IndexSelector, NameSelector  # noqa: PLC0415

    try:
        query = jsonpath.compile(path, strict=True)
    except jsonpath.JSONPathError as error:
        raise RequestRefused(f"spec.id.path {path!r} is not a JSONPath: {error}") from error
    steps: list[str | int] = []
    if isinstance(query, jsonpath.JSONPath) and query.singular_query():
        for segment in query.segments:
            match segment.selectors[0]:
                case NameSelector(name=name):
                    steps.append(name)
                case IndexSelector(index=index):
                    steps.append(index)
        return steps
    raise RequestRefused(f"spec.id.path {path!r} may select several values; use names and indices")


def _digest_of_record() -> Column:
    """Return the SHA-256 of all parts of a record, each preceded by its length.

    Spark's own hash functions of several columns skip nulls, so that (null, a) would equal (a, null).
    """
    headers = F.coalesce("headers", F.array().cast("array<struct<key:string,value:binary>>"))
    each = F.aggregate(
        headers,
        F.lit(b""),
        lambda text, header: F.concat(
            text, _field(header["key"].cast("binary")), _field(header["value"])
        ),
    )
    count = _number(F.size(headers))
    time = _number(F.unix_millis("timestamp"))
    return _sha256(F.concat(_field(F.col("key")), _field(F.col("value")), time, count, each))


def _field(content: Column) -> Column:
    """Encode as a netstring, `5:hello`, or `-` for null, which is unambiguous."""
    return F.coalesce(F.concat(_number(F.length(content)), content), F.lit(b"-"))


def _number(number: Column) -> Column:
    return F.concat(number.cast("string").cast("binary"), _bytes(":"))


def _bytes(text: str) -> Column:
    return F.lit(text.encode())


def _sha256(content: Column) -> Column:
    """Return half of the SHA-256.

    Of a trillion records two are equal by chance once in 10^14 audits.
    """
    return F.unhex(F.substring(F.sha2(content, 256), 1, 32))


def _unless_empty(content: Column) -> Column:
    return F.when(F.length(content) > 0, content)
