"""Check a job's expressions with Spark, and derive PostgreSQL's column types.

The job calls it before Spark reads any record.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from dedupe_pipeline.errors import JobRefused, first_line
from dedupe_pipeline.jobs.aggregate.determinism import nondeterminism
from dedupe_pipeline.jobs.aggregate.increments import increments, parsed_fields
from dedupe_pipeline.jobs.aggregate.job_file import RECORD, AggregateJob, Function
from dedupe_pipeline.runtime.portable import type_of
from dedupe_pipeline.source import SCHEMA

Answer = TypeVar("Answer")

_TAKEN = {RECORD, "_partition", "_offset", "_readable", "_unreadable"}
_TIMES = (TimestampType, TimestampNTZType)
_KEYS = (StringType, IntegralType, BooleanType, DateType, DecimalType, *_TIMES)
_NUMBERS = (IntegralType, DecimalType, FloatType, DoubleType)


_EXTREME = ((*_NUMBERS, DateType, *_TIMES), "a number, a date or a timestamp")
_TAKES: dict[Function, tuple[tuple[type[DataType], ...], str]] = {
    Function.COUNT: ((DataType,), "anything"),
    Function.SUM: (_NUMBERS, "a number"),
    Function.MIN: _EXTREME,
    Function.MAX: _EXTREME,
}
_IN_POSTGRES: dict[type[DataType], str] = {
    IntegralType: "bigint",
    DoubleType: "double precision",
    FloatType: "double precision",
    DecimalType: "numeric",
    StringType: "text",
    BooleanType: "boolean",
    DateType: "date",
    TimestampType: "timestamp with time zone",
    TimestampNTZType: "timestamp with time zone",
}


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The schema of the JSON value, and the types of the table's columns.

    `keys` and `measures` are PostgreSQL's types as its catalogue writes them, by column.
    """

    schema: StructType | None
    keys: dict[str, str]
    measures: dict[str, str]


def shape_of(spark: SparkSession, job: AggregateJob) -> Shape:
    """Check every expression of a job.

    Raises:
        JobRefused: Spark cannot compute an expression, or its type cannot be stored.
    """
    schema = _schema(job)
    nothing = spark.createDataFrame([], SCHEMA)
    fields = parsed_fields(nothing, schema)
    _check(fields, "eventTime", job.event_time, (*_TIMES, DateType), "a timestamp")
    if job.where is not None:
        _check(fields, "where", job.where, (BooleanType,), "true or false")
    for name, expression in job.keys.items():
        _check(
            fields, f"keys.{name}", expression, _KEYS,
            "text, a whole number, a decimal, a date, a timestamp or true or false",
        )  # fmt: skip
    for name, measure in job.measures.items():
        if measure.of != "*":
            _check(fields, f"measures.{name}", measure.of, *_TAKES[measure.function])
    kinds = {field.name: field.dataType for field in increments(nothing, job, schema, {}).schema}
    return Shape(
        schema=schema,
        keys={name: _type(kinds[name]) for name in job.keys},
        measures={name: _type(kinds[name]) for name in job.measures},
    )


def _schema(job: AggregateJob) -> StructType | None:
    if job.schema_ is None:
        return None
    schema = _ask_spark("schema", job.schema_, lambda: type_of(job.schema_ or ""))
    if not isinstance(schema, StructType):  # the DDL of a single type is that type
        raise JobRefused(f"schema: {job.schema_!r} names no fields; write them as 'name TYPE, …'")
    names = [field.name.lower() for field in schema.fields]
    if taken := [name for name in names if name in _TAKEN or names.count(name) > 1]:
        raise JobRefused(f"schema: the field {taken[0]} exists already; leave it out")
    return schema


def _check(
    fields: DataFrame, where: str, expression: str, wanted: tuple[type[DataType], ...], allowed: str
) -> None:
    # In a struct, next to another column, Spark refuses expressions that generate or aggregate rows.
    row = _ask_spark(
        where,
        expression,
        lambda: fields.select(RECORD, F.struct(F.expr(expression).alias("one")).alias("row")),
    )
    found = row.select("row.one").schema[0].dataType
    if not isinstance(found, wanted):
        raise JobRefused(f"{where}: {expression!r} is {found.simpleString()}; it must be {allowed}")
    if reason := next(nondeterminism(fields, row, expression), None):
        raise JobRefused(
            f"{where}: {expression!r} {reason}, so its result would depend on when and in which batches "
            "records are counted; use only the record itself, such as record.timestamp"
        )


def _ask_spark(where: str, text: str, analyse: Callable[[], Answer]) -> Answer:
    try:
        return analyse()
    except PySparkException as error:
        raise JobRefused(f"{where}: Spark cannot use {text!r}: {first_line(error)}") from error


def _type(kind: DataType) -> str:
    return next(name for each, name in _IN_POSTGRES.items() if isinstance(kind, each))
