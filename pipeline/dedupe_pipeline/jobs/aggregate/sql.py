"""The tables in PostgreSQL and the SQL statements on them.

`exactly_once_writer` and `metadata_table` execute them; this module executes nothing.

The user's table, named in the job file:

    window_start, window_end  timestamptz    the window: from its start to before its end
    keys                      as computed    null where the record has none
    measures                  as computed
    late                      bigint         records that came after the window was closed, which are in
                                             no measure; only with `watermark` and `late: Count`
    unique nulls not distinct (window_start, keys)

Its view <table>_final, only with a watermark: the rows whose windows are closed for every partition.

dedupestream_jobs, in the same schema, one row for each table:

    target      regclass     the table itself: it may be renamed. A table that was dropped and created
                             again is a different one, which is counted from the topic's beginning
    topic       text         and topic_id, its UUID in Kafka
    definition  jsonb        the job file without the table's name

dedupestream_offsets, one row for each partition of the topic:

    target, partition        primary key
    first_offset             all records are counted from here
    next_offset              to before here
    newest      timestamptz  their newest event time, which closes windows
    records                  the sum of the next four, if windows do not overlap
    counted, late            additions to windows
    filtered, unusable       records
    skipped                  offsets that were not counted because the topic had deleted them
    updated     timestamptz
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from psycopg import sql

from dedupe_pipeline.jobs.aggregate.columns import Shape
from dedupe_pipeline.jobs.aggregate.job_file import (
    LATE,
    WINDOW_END,
    WINDOW_START,
    AggregateJob,
    Function,
)

JOBS = "dedupestream_jobs"
OFFSETS = "dedupestream_offsets"
STAGING = "dedupestream_staging"
BIGINT = "bigint"
TIMESTAMP = "timestamp with time zone"

_MICROS = timedelta(microseconds=1)
# In the order of `increments`; the user's columns follow the third.
_BEFORE = {"_partition": "integer", "_fate": "text", "_window": TIMESTAMP}
_AFTER = {
    "_records": BIGINT,
    "_additions": BIGINT,
    "_first": BIGINT,
    "_last": BIGINT,
    "_newest": TIMESTAMP,
}
_ADD = {
    Function.COUNT: "{old} + {new}",
    Function.SUM: "coalesce({old} + {new}, {old}, {new})",
    Function.MIN: "least({old}, {new})",
    Function.MAX: "greatest({old}, {new})",
}
_ONLY = "FILTER (WHERE _fate = 'counted')"
_MERGE = {
    Function.COUNT: f"coalesce(sum({{new}}) {_ONLY}, 0)",
    **{f: f"{f}({{new}}) {_ONLY}" for f in (Function.SUM, Function.MIN, Function.MAX)},
}


@dataclass(frozen=True, kw_only=True)
class TableSql:
    """The SQL of one job's table.

    `table` is its name in the job file, with or without a schema.
    """

    table: str
    length: timedelta
    watermark: timedelta | None
    shape: Shape
    functions: dict[str, Function]
    counts_late: bool

    @classmethod
    def of(cls, job: AggregateJob, shape: Shape) -> "TableSql":
        """Return the SQL for a job."""
        return cls(
            table=job.table,
            length=job.window,
            watermark=job.watermark,
            shape=shape,
            functions={name: measure.function for name, measure in job.measures.items()},
            counts_late=job.counts_late,
        )

    def columns(self) -> dict[str, str]:
        """Return the table's columns and their types, as in PostgreSQL's catalogue."""
        late = {LATE: BIGINT} if self.counts_late else {}
        windows = {WINDOW_START: TIMESTAMP, WINDOW_END: TIMESTAMP}
        return {**windows, **self.shape.keys, **self.shape.measures, **late}

    def unique(self) -> list[str]:
        """Return the columns that identify a row."""
        return [WINDOW_START, *self.shape.keys]

    @property
    def name(self) -> sql.Identifier:
        """Return the table as an SQL identifier."""
        return sql.Identifier(*self.table.split("."))

    def in_schema(self, name: str) -> sql.Identifier:
        """Return another table in the same schema."""
        return sql.Identifier(*self.table.split(".")[:-1], name)

    def tables(self) -> list[str]:
        """Return the names of the table and of those with the metadata."""
        schema, dot, _ = self.table.rpartition(".")
        return [self.table, *(f"{schema}{dot}{name}" for name in (JOBS, OFFSETS))]

    # -- creation ----------------------------------------------------------------------------------

    def create_metadata_tables(self) -> Iterator[sql.Composed]:
        """Create the tables with the jobs and their offsets, if absent."""
        yield sql.SQL(
            "CREATE TABLE IF NOT EXISTS {jobs} (target regclass PRIMARY KEY, topic text NOT NULL, "
            "topic_id text NOT NULL, definition jsonb NOT NULL, "
            "created timestamptz NOT NULL DEFAULT now())"
        ).format(jobs=self.in_schema(JOBS))
        yield sql.SQL(
            "CREATE TABLE IF NOT EXISTS {offsets} (target regclass NOT NULL REFERENCES {jobs} ON "
            "DELETE CASCADE, partition integer NOT NULL, first_offset bigint NOT NULL, next_offset "
            "bigint NOT NULL, newest timestamptz, records bigint NOT NULL DEFAULT 0, counted bigint NOT "
            "NULL DEFAULT 0, late bigint NOT NULL DEFAULT 0, filtered bigint NOT NULL DEFAULT 0, "
            "unusable bigint NOT NULL DEFAULT 0, skipped bigint NOT NULL DEFAULT 0, updated "
            "timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (target, partition))"
        ).format(jobs=self.in_schema(JOBS), offsets=self.in_schema(OFFSETS))

    def create_table(self) -> sql.Composed:
        """Create the user's table."""
        required = {WINDOW_START, WINDOW_END, *self._counted()}
        columns = sql.SQL(", ").join(
            sql.SQL("{} {}{}").format(
                sql.Identifier(name),
                sql.SQL(kind),
                sql.SQL(" NOT NULL" if name in required else ""),
            )
            for name, kind in self.columns().items()
        )
        return sql.SQL(
            "CREATE TABLE {table} ({columns}, UNIQUE NULLS NOT DISTINCT ({unique}))"
        ).format(table=self.name, columns=columns, unique=_names(self.unique()))

    def create_view(self) -> sql.Composed | None:
        """Create the view of the final rows."""
        if self.watermark is None:
            return None
        *schema, table = self.table.split(".")
        return sql.SQL(
            "CREATE OR REPLACE VIEW {view} AS SELECT {columns} FROM {table} WHERE window_end <= (SELECT "
            "min(coalesce(newest, '-infinity')) - {watermark} FROM {offsets} WHERE target = {target}::"
            "regclass)"
        ).format(
            view=sql.Identifier(*schema, f"{table}_final"),
            columns=_names(self.columns()),
            table=self.name,
            watermark=_interval(self.watermark),
            offsets=self.in_schema(OFFSETS),
            target=sql.Literal(self.table),
        )

    def create_staging(self) -> sql.Composed:
        """Create the temporary table of this connection to which a batch is copied."""
        columns = {**_BEFORE, **self.shape.keys, **self.shape.measures, **_AFTER}
        return sql.SQL("CREATE TEMPORARY TABLE IF NOT EXISTS {} ({}) ON COMMIT DELETE ROWS").format(
            sql.Identifier(STAGING),
            sql.SQL(", ").join(
                sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind))
                for name, kind in columns.items()
            ),
        )

    # -- a batch -----------------------------------------------------------------------------------

    def lock_job(self) -> sql.Composed:
        """Block other transactions that add to the table until this transaction ends."""
        return sql.SQL("SELECT FROM {} WHERE target = %(target)s::oid FOR UPDATE").format(
            self.in_schema(JOBS)
        )

    def copy(self) -> sql.Composed:
        """Copy rows of `increments`, as CSV."""
        return sql.SQL("COPY {} FROM STDIN (FORMAT csv)").format(sql.Identifier(STAGING))

    def add(self) -> sql.Composed:
        """Add the staged rows to the user's table."""
        late = {LATE: sql.SQL("coalesce(sum(_additions) FILTER (WHERE _fate = 'late'), 0)::bigint")}
        values = {
            **{name: self._merged(name, function) for name, function in self.functions.items()},
            **(late if self.counts_late else {}),
        }
        adding = {**self.functions, **({LATE: Function.COUNT} if self.counts_late else {})}
        by = [sql.Identifier("_window"), *map(sql.Identifier, self.shape.keys)]
        return sql.SQL(
            "INSERT INTO {table} AS t ({columns}) SELECT _window, _window + {length}, {values} FROM "
            "{staging} WHERE _window IS NOT NULL GROUP BY {by} ON CONFLICT ({unique}) DO UPDATE SET {sets}"
        ).format(
            table=self.name,
            columns=_names(self.columns()),
            length=_interval(self.length),
            values=sql.SQL(", ").join([*by[1:], *values.values()]),
            staging=sql.Identifier(STAGING),
            by=sql.SQL(", ").join(by),
            unique=_names(self.unique()),
            sets=sql.SQL(", ").join(_set(name, function) for name, function in adding.items()),
        )

    def record_offsets(self) -> sql.Composed:
        """Store the added offsets and the counts of their records by fate."""
        sums = sql.SQL(", ").join(
            sql.SQL("coalesce(sum({}) FILTER (WHERE _fate = {}), 0)").format(
                sql.Identifier(column), sql.Literal(fate)
            )
            for fate, column in (
                ("counted", "_additions"),
                ("late", "_additions"),
                ("filtered", "_records"),
                ("unusable", "_records"),
            )
        )
        return sql.SQL(
            "INSERT INTO {offsets} AS o (target, partition, first_offset, next_offset, newest, records, "
            "counted, late, filtered, unusable) SELECT %(target)s::oid::regclass, _partition, "
            "min(_first), max(_last) + 1, max(_newest), sum(_records), {sums} FROM {staging} GROUP BY "
            "_partition ON CONFLICT (target, partition) DO UPDATE SET next_offset = "
            "excluded.next_offset, newest = greatest(o.newest, excluded.newest), records = o.records + "
            "excluded.records, counted = o.counted + excluded.counted, late = o.late + excluded.late, "
            "filtered = o.filtered + excluded.filtered, unusable = o.unusable + excluded.unusable, "
            "updated = now()"
        ).format(offsets=self.in_schema(OFFSETS), sums=sums, staging=sql.Identifier(STAGING))

    def advance_offsets(self) -> sql.Composed:
        """Advance to the ends of a batch, as no record lies after its last record."""
        return sql.SQL(
            "INSERT INTO {offsets} AS o (target, partition, first_offset, next_offset) SELECT "
            "%(target)s::oid::regclass, e.partition, 0, e.next_offset FROM unnest(%(partitions)s::int[], "
            "%(ends)s::bigint[]) AS e (partition, next_offset) ON CONFLICT (target, partition) DO "
            "UPDATE SET next_offset = excluded.next_offset, updated = now() WHERE o.next_offset < "
            "excluded.next_offset"
        ).format(offsets=self.in_schema(OFFSETS))

    def _counted(self) -> Iterator[str]:
        yield from (name for name, each in self.functions.items() if each is Function.COUNT)
        if self.counts_late:
            yield LATE

    def _merged(self, name: str, function: Function) -> sql.Composed:
        """Merge a measure of several partitions; late records are in no measure."""
        merged = sql.SQL(_MERGE[function]).format(new=sql.Identifier(name))
        return sql.SQL("({})::{}").format(merged, sql.SQL(self.shape.measures[name]))


def _set(name: str, function: Function) -> sql.Composed:
    old, new = sql.Identifier("t", name), sql.Identifier("excluded", name)
    return sql.SQL("{} = {}").format(
        sql.Identifier(name), sql.SQL(_ADD[function]).format(old=old, new=new)
    )


def _names(names: Iterable[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def _interval(length: timedelta) -> sql.Composed:
    """Return a length in microseconds, as PostgreSQL's day is not always 24 hours."""
    return sql.SQL("{}::interval").format(sql.Literal(f"{length // _MICROS} microseconds"))
