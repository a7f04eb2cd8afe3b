"""The metadata of a table in the database: its job and its progress.

`exactly_once_writer` calls it. Invariant: a job adds only to a table whose registered topic and definition are its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import Connection, sql
from psycopg.types.json import Jsonb

from dedupe_kafka.errors import RecordsExpired
from dedupe_kafka.offsets import TopicOffsets
from dedupe_pipeline.errors import JobRefused
from dedupe_pipeline.jobs.aggregate.increments import Progress
from dedupe_pipeline.jobs.aggregate.postgres_connection import where
from dedupe_pipeline.jobs.aggregate.sql import JOBS, OFFSETS, TableSql

# Any number, the same in each version of the job: sessions that create tables take turns by this lock.
_SETUP_LOCK = 0x6465_6475_7065


@dataclass(frozen=True, kw_only=True)
class Source:
    """The counted topic with its present offsets, and the `AggregateJob.definition`."""

    topic_id: str
    offsets: TopicOffsets
    definition: Mapping[str, Any]


def create_tables(connection: Connection, table_sql: TableSql, known: int | None = None) -> int:
    """Create the tables that are missing, check the others; return the table's oid.

    The oid must be the `known` one, if given.

    Raises:
        JobRefused: an unsuitable table has the name, or its view is of another table.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SETUP_LOCK,))
        prefix, dot, name = table_sql.table.rpartition(".")
        if any(_oid(connection, f"{prefix}{dot}{each}") is None for each in (JOBS, OFFSETS)):
            for statement in table_sql.create_metadata_tables():
                connection.execute(statement)
        oid = _oid(connection, table_sql.table)
        if oid is None:
            connection.execute(table_sql.create_table())
            oid = _oid(connection, table_sql.table)
        else:
            _check_table(connection, table_sql, oid)
        if oid is None:
            raise JobRefused(
                f"{table_sql.table} was created, but is not in the search path: write its schema before its name"
            )
        if known is not None:
            check_same_table(connection, table_sql, known)
        view = table_sql.create_view()
        if view is not None:
            found_view = _oid(connection, f"{prefix}{dot}{name}_final")
            if found_view is None:
                connection.execute(view)
            else:
                _check_view(connection, table_sql, oid, found_view)
    return oid


def check_same_table(connection: Connection, table_sql: TableSql, oid: int) -> None:
    """Check that the table's name is still that of the job's table.

    Raises:
        JobRefused: the name is that of another table, or of none.
    """
    if _oid(connection, table_sql.table) != oid:
        raise JobRefused(
            f"{table_sql.table} in {where(connection)} is no longer the table that this job counts for, which "
            "was renamed, moved or dropped; nothing was added to the table that has its name now. Correct the name "
            "in the job file and run the job again"
        )


def register(
    connection: Connection, table_sql: TableSql, oid: int, source: Source, *, skip_deleted: bool
) -> None:
    """Register the job and its partitions, or check that it is the registered one.

    Raises:
        JobRefused: the table's rows were counted from another topic, or with another definition.
        RecordsExpired: the topic deleted records that are not counted, unless `skip_deleted`.
    """
    jobs, offsets = table_sql.in_schema(JOBS), table_sql.in_schema(OFFSETS)
    topic = source.offsets.topic
    with connection.transaction():
        connection.execute(
            sql.SQL("DELETE FROM {} WHERE target NOT IN (SELECT oid FROM pg_class)").format(jobs)
        )
        found = connection.execute(
            sql.SQL("SELECT topic, topic_id, definition FROM {} WHERE target = %s::oid").format(
                jobs
            ),
            (oid,),
        ).fetchone()
        if found is None:
            _check_empty(connection, table_sql)
            connection.execute(
                sql.SQL(
                    "INSERT INTO {} (target, topic, topic_id, definition) "
                    "VALUES (%s::oid::regclass, %s, %s, %s)"
                ).format(jobs),
                (oid, topic, source.topic_id, Jsonb(source.definition)),
            )
        else:
            _check_same(table_sql, source, *found)
        known = progress(connection, table_sql, oid)
        for partition, start in source.offsets.lows.items():
            at = known.get(partition)
            if at is None:
                skipped = 0
                if found is not None:  # a partition that was added later is counted up to 0
                    _check_reaches(table_sql, source.offsets, partition, 0, skip_deleted)
                    skipped = start
                connection.execute(
                    sql.SQL(
                        "INSERT INTO {} (target, partition, first_offset, next_offset, skipped) "
                        "VALUES (%s::oid::regclass, %s, %s, %s, %s)"
                    ).format(offsets),
                    (oid, partition, start, start, skipped),
                )
                continue
            _check_reaches(table_sql, source.offsets, partition, at.next_offset, skip_deleted)
            connection.execute(
                sql.SQL(
                    "UPDATE {} SET skipped = skipped + %s - next_offset, next_offset = %s "
                    "WHERE target = %s::oid AND partition = %s AND next_offset < %s"
                ).format(offsets),
                (start, start, oid, partition, start),
            )


def progress(connection: Connection, table_sql: TableSql, oid: int) -> dict[int, Progress]:
    """Return the progress of each partition."""
    rows = connection.execute(
        sql.SQL(
            "SELECT partition, next_offset, (extract(epoch FROM newest) * 1000000)::bigint "
            "FROM {} WHERE target = %s::oid"
        ).format(table_sql.in_schema(OFFSETS)),
        (oid,),
    )
    return {
        partition: Progress(next_offset=next_offset, newest_us=newest_us)
        for partition, next_offset, newest_us in rows
    }


def _oid(connection: Connection, name: str) -> int | None:
    row = connection.execute("SELECT to_regclass(%s)::oid::bigint", (name,)).fetchone()
    return row[0] if row else None


def _check_table(connection: Connection, table_sql: TableSql, oid: int) -> None:
    at = f"{table_sql.table} in {where(connection)}"
    kind = connection.execute(
        "SELECT relkind::text, relpersistence::text FROM pg_class WHERE oid = %s", (oid,)
    ).fetchone()
    if kind not in {("r", "p"), ("p", "p")}:
        raise JobRefused(
            f"{at} is not an ordinary, logged table; name another table in the job file"
        )
    found: dict[str, str] = dict(
        connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped",
            (oid,),
        ).fetchall()
    )
    wrong = [
        f"{name} is {found[name]}, not {kind}" if name in found else f"{name} ({kind}) is missing"
        for name, kind in table_sql.columns().items()
        if found.get(name) != kind
    ]
    if wrong:
        raise JobRefused(
            f"{at} does not fit the job: {'; '.join(wrong)}. Name another table in the job file, or "
            "drop this table: the topic is then counted from its beginning"
        )
    if not _is_unique(connection, table_sql, oid):
        raise JobRefused(
            f"{at} has no unique constraint on ({', '.join(table_sql.unique())}) with NULLS NOT DISTINCT, "
            "which identifies a row: add it, or name another table in the job file"
        )


def _is_unique(connection: Connection, table_sql: TableSql, oid: int) -> bool:
    indexes = connection.execute(
        "SELECT array_agg(a.attname::text), i.indnullsnotdistinct OR bool_and(a.attnotnull) "
        "FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) "
        "WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indpred IS NULL "
        "AND i.indexprs IS NULL GROUP BY i.indexrelid, i.indnullsnotdistinct",
        (oid,),
    )
    return any(set(names) == set(table_sql.unique()) and holds for names, holds in indexes)


def _check_view(connection: Connection, table_sql: TableSql, oid: int, view: int) -> None:
    found = connection.execute(
        "SELECT 1 FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND "
        "d.objid = r.oid WHERE r.ev_class = %s AND d.refclassid = 'pg_class'::regclass AND "
        "d.refobjid = %s LIMIT 1",
        (view, oid),
    )
    if found.fetchone() is None:
        raise JobRefused(
            f"{table_sql.table}_final in {where(connection)} is not a view of {table_sql.table}, perhaps because the "
            "table was renamed and its view was not: rename or drop it, or name another table in the job file"
        )


def _check_empty(connection: Connection, table_sql: TableSql) -> None:
    rows = connection.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(table_sql.name))
    if rows.fetchone() is not None:
        raise JobRefused(
            f"{table_sql.table} in {where(connection)} has rows of unknown origin: name another table in the "
            "job file, or drop or empty this table"
        )


def _check_same(
    table_sql: TableSql, source: Source, topic: str, topic_id: str, definition: Mapping[str, Any]
) -> None:
    start_again = "name another table in the job file, or drop this table to start again"
    if topic != source.offsets.topic:
        raise JobRefused(
            f"{table_sql.table} is counted from topic {topic!r}, not {source.offsets.topic!r}: {start_again}"
        )
    if topic_id != source.topic_id:
        raise JobRefused(
            f"topic {topic!r} was deleted and created again since {table_sql.table} was counted from it: "
            f"{start_again}"
        )
    now = source.definition
    changed = [
        f"{name} was {definition.get(name)!r} and is {now.get(name)!r}"
        for name in sorted({*definition, *now})
        if definition.get(name) != now.get(name)
    ]
    if changed:
        raise JobRefused(
            f"the rows of {table_sql.table} were counted with another definition: {'; '.join(changed)}. Restore "
            f"it, or {start_again}"
        )


def _check_reaches(
    table_sql: TableSql, offsets: TopicOffsets, partition: int, next_offset: int, skip_deleted: bool
) -> None:
    at = f"{offsets.topic!r}, partition {partition}"
    if next_offset < offsets.lows[partition] and not skip_deleted:
        raise RecordsExpired(
            f"{at}: {table_sql.table} is counted to before offset {next_offset}, and the topic begins at "
            f"{offsets.lows[partition]}: the records between were deleted before they were counted. With "
            "--skip-deleted the job continues without them; or drop the table to start again"
        )
    if next_offset > offsets.ends[partition]:
        raise JobRefused(
            f"{at}: {table_sql.table} is counted to before offset {next_offset}, and the topic ends at "
            f"{offsets.ends[partition]}: it has lost records. Name another table in the job file"
        )
