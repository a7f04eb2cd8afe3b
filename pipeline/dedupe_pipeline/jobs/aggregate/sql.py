"""The tables in PostgreSQL, and the statements on them. Nothing here is executed.

The user's table, named in the job file:

    window_start, window_end  timestamptz    the window: from its start to before its end
    keys                      as computed    null where the record has none
    measures                  as computed
    late                      bigint         records that came when the window was closed, and are in
                                             no measure; only with `watermark` and `late: Count`
    unique nulls not distinct (window_start, keys)

Its view <table>_final, with a watermark: the rows whose windows are closed to every partition.

dedupestream_jobs, in the same schema, a row for each table:

    target      regclass     the table itself: it may be renamed, and one that is dropped and made
                             again is another, which begins at the topic's beginning
    topic       text         and topic_id, its UUID in Kafka
    definition  jsonb        the job file, less the table's name

dedupestream_offsets, a row for each of its partitions:

    target, partition        what it is about; primary key
    first_offset             counted is all from here
    next_offset              to before here
    newest      timestamptz  the newest event time of these, which closes windows
    records = what follows, added up, if windows don't overlap
    counted, late            as additions to windows
    filtered, unusable       as records
    skipped                  offsets that were given up because the topic no longer had them
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
# In the order of `increments`; the user's own columns stand after the third.
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
class Layout:
    """One job's table; `table` is its name in the job file, with or without a schema."""

    table: str
    length: timedelta
    watermark: timedelta | None
    shape: Shape
    functions: dict[str, Function]
    counts_late: bool

    @classmethod
    def of(cls, job: AggregateJob, shape: Shape) -> "Layout":
        """The layout of a job."""
        return cls(
            table=job.table,
            length=job.window,
            watermark=job.watermark,
            shape=shape,
            functions={name: one.function for name, one in job.measures.items()},
            counts_late=job.counts_late,
        )

    def columns(self) -> dict[str, str]:
        """The table's columns and their types, as PostgreSQL's catalogue writes them."""
        late = {LATE: BIGINT} if self.counts_late else {}
        windows = {WINDOW_START: TIMESTAMP, WINDOW_END: TIMESTAMP}
        return {**windows, **self.shape.keys, **self.shape.measures, **late}

    def unique(self) -> list[str]:
        """What a row is found by."""
        return [WINDOW_START, *self.shape.keys]

    @property
    def name(self) -> sql.Identifier:
        """The table as it is written in SQL."""
        return sql.Identifier(*self.table.split("."))

    def beside(self, name: str) -> sql.Identifier:
        """A table in the same schema."""
        return sql.Identifier(*self.table.split(".")[:-1], name)

    # -- making them -------------------------------------------------------------------------------

    def create_ledger(self) -> Iterator[sql.Composed]:
        """Make the tables that say what is counted, if they are not there."""
        yield sql.SQL(
            "CREATE TABLE IF NOT EXISTS {jobs} (target regclass PRIMARY KEY, topic text NOT NULL, "
            "topic_id text NOT NULL, definition jsonb NOT NULL, "
            "created timestamptz NOT NULL DEFAULT now())"
        ).format(jobs=self.beside(JOBS))
        yield sql.SQL(
            "CREATE TABLE IF NOT EXISTS {offsets} (target regclass NOT NULL REFERENCES {jobs} ON "
            "DELETE CASCADE, partition integer NOT NULL, first_offset bigint NOT NULL, next_offset "
            "bigint NOT NULL, newest timestamptz, records bigint NOT NULL DEFAULT 0, counted bigint NOT "
            "NULL DEFAULT 0, late bigint NOT NULL DEFAULT 0, filtered bigint NOT NULL DEFAULT 0, "
            "unusable bigint NOT NULL DEFAULT 0, skipped bigint NOT NULL DEFAULT 0, updated "
            "timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (target, partition))"
        ).format(jobs=self.beside(JOBS), offsets=self.beside(OFFSETS))

    def create_table(self) -> sql.Composed:
        """Make the user's table."""
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
        """Make the view of what is final."""
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
            offsets=self.beside(OFFSETS),
            target=sql.Literal(self.table),
        )

    def create_staging(self) -> sql.Composed:
        """Make the table a batch is copied to, which only this connection has."""
        columns = {**_BEFORE, **self.shape.keys, **self.shape.measures, **_AFTER}
        return sql.SQL("CREATE TEMPORARY TABLE IF NOT EXISTS {} ({}) ON COMMIT DELETE ROWS").format(
            sql.Identifier(STAGING),
            sql.SQL(", ").join(
                sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind))
                for name, kind in columns.items()
            ),
        )

    # -- a batch -----------------------------------------------------------------------------------

    def hold(self) -> sql.Composed:
        """Let no other transaction add to the table until this one ends."""
        return sql.SQL("SELECT FROM {} WHERE target = %(target)s::oid FOR UPDATE").format(
            self.beside(JOBS)
        )

    def copy(self) -> sql.Composed:
        """Take rows of `increments` in as CSV."""
        return sql.SQL("COPY {} FROM STDIN (FORMAT csv)").format(sql.Identifier(STAGING))

    def add(self) -> sql.Composed:
        """Add what is staged to the user's table."""
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

    def account(self) -> sql.Composed:
        """Write down which offsets have been added, and what became of their records."""
        sums = sql.SQL(", ").join(
            sql.SQL("coalesce(sum({}) FILTER (WHERE _fate = {}), 0)").format(
                sql.Identifier(what), sql.Literal(fate)
            )
            for fate, what in (
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
        ).format(offsets=self.beside(OFFSETS), sums=sums, staging=sql.Identifier(STAGING))

    def advance(self) -> sql.Composed:
        """Go on to the ends of a batch: what lies between them and the last record is none."""
        return sql.SQL(
            "INSERT INTO {offsets} AS o (target, partition, first_offset, next_offset) SELECT "
            "%(target)s::oid::regclass, e.partition, 0, e.next_offset FROM unnest(%(partitions)s::int[], "
            "%(ends)s::bigint[]) AS e (partition, next_offset) ON CONFLICT (target, partition) DO "
            "UPDATE SET next_offset = excluded.next_offset, updated = now() WHERE o.next_offset < "
            "excluded.next_offset"
        ).format(offsets=self.beside(OFFSETS))

    def _counted(self) -> Iterator[str]:
        yield from (name for name, one in self.functions.items() if one is Function.COUNT)
        if self.counts_late:
            yield LATE

    def _merged(self, name: str, function: Function) -> sql.Composed:
        """Of several partitions one; a late record is in no measure."""
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
    """In microseconds: a day of PostgreSQL's is not always 24 hours."""
    return sql.SQL("{}::interval").format(sql.Literal(f"{length // _MICROS} microseconds"))
