"""What a table is for and how far it is counted: read, checked and written down in the database."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import Connection, sql
from psycopg.types.json import Jsonb

from dedupe_pipeline.errors import JobRefused, RecordsExpired
from dedupe_pipeline.jobs.aggregate.increments import Progress
from dedupe_pipeline.jobs.aggregate.postgres import where
from dedupe_pipeline.jobs.aggregate.sql import JOBS, OFFSETS, Layout
from dedupe_pipeline.offsets import TopicRange

# Any number, as long as each version of the job has the same: those who make tables queue here.
_SETUP_LOCK = 0x6465_6475_7065


@dataclass(frozen=True, kw_only=True)
class Source:
    """What is counted: a topic as it is now, and how (`AggregateJob.definition`)."""

    topic_id: str
    span: TopicRange
    definition: Mapping[str, Any]


def make_tables(connection: Connection, layout: Layout, known: int | None = None) -> int:
    """Make what is not there, check what is; returns the table's oid, which must be the `known` one.

    Raises:
        JobRefused: there is another table of that name, or beside it a view of another one.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SETUP_LOCK,))
        prefix, dot, name = layout.table.rpartition(".")
        if any(_oid(connection, f"{prefix}{dot}{each}") is None for each in (JOBS, OFFSETS)):
            for statement in layout.create_ledger():
                connection.execute(statement)
        oid = _oid(connection, layout.table)
        if oid is None:
            connection.execute(layout.create_table())
            oid = _oid(connection, layout.table)
        else:
            _check_table(connection, layout, oid)
        if oid is None:
            raise JobRefused(
                f"{layout.table} was made, and is not in the search path: write its schema before it"
            )
        if known is not None:
            check_still(connection, layout, known)
        view = layout.create_view()
        if view is not None:
            beside = _oid(connection, f"{prefix}{dot}{name}_final")
            if beside is None:
                connection.execute(view)
            else:
                _check_view(connection, layout, oid, beside)
    return oid


def check_still(connection: Connection, layout: Layout, oid: int) -> None:
    """Check that the table's name still leads to the one that is counted for.

    Raises:
        JobRefused: it leads to another, or to none.
    """
    if _oid(connection, layout.table) != oid:
        raise JobRefused(
            f"{layout.table} in {where(connection)} is no longer the table that this job counts for, which "
            "was renamed, moved or dropped; nothing was added to the one that has its name now. Run the job again "
            "with the name that is meant"
        )


def register(
    connection: Connection, layout: Layout, oid: int, source: Source, *, skip_deleted: bool
) -> None:
    """Enter the job for its table, or check that it is the one there; enter its partitions.

    Raises:
        JobRefused: the table's rows were counted from another topic, or in another way.
        RecordsExpired: the topic has lost records that are not counted, unless `skip_deleted`.
    """
    jobs, offsets = layout.beside(JOBS), layout.beside(OFFSETS)
    topic = source.span.topic
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
            _check_empty(connection, layout)
            connection.execute(
                sql.SQL(
                    "INSERT INTO {} (target, topic, topic_id, definition) "
                    "VALUES (%s::oid::regclass, %s, %s, %s)"
                ).format(jobs),
                (oid, topic, source.topic_id, Jsonb(source.definition)),
            )
        else:
            _check_same(layout, source, *found)
        known = progress(connection, layout, oid)
        for partition, start in source.span.starts.items():
            at = known.get(partition)
            if at is None:
                skipped = 0
                if found is not None:  # a partition that was added since has been counted to 0
                    _check_reaches(layout, source.span, partition, 0, skip_deleted)
                    skipped = start
                connection.execute(
                    sql.SQL(
                        "INSERT INTO {} (target, partition, first_offset, next_offset, skipped) "
                        "VALUES (%s::oid::regclass, %s, %s, %s, %s)"
                    ).format(offsets),
                    (oid, partition, start, start, skipped),
                )
                continue
            _check_reaches(layout, source.span, partition, at.next_offset, skip_deleted)
            connection.execute(
                sql.SQL(
                    "UPDATE {} SET skipped = skipped + %s - next_offset, next_offset = %s "
                    "WHERE target = %s::oid AND partition = %s AND next_offset < %s"
                ).format(offsets),
                (start, start, oid, partition, start),
            )


def progress(connection: Connection, layout: Layout, oid: int) -> dict[int, Progress]:
    """How far each partition is counted."""
    rows = connection.execute(
        sql.SQL(
            "SELECT partition, next_offset, (extract(epoch FROM newest) * 1000000)::bigint "
            "FROM {} WHERE target = %s::oid"
        ).format(layout.beside(OFFSETS)),
        (oid,),
    )
    return {
        partition: Progress(next_offset=next_offset, newest_us=newest_us)
        for partition, next_offset, newest_us in rows
    }


def _oid(connection: Connection, name: str) -> int | None:
    row = connection.execute("SELECT to_regclass(%s)::oid::bigint", (name,)).fetchone()
    return row[0] if row else None


def _check_table(connection: Connection, layout: Layout, oid: int) -> None:
    at = f"{layout.table} in {where(connection)}"
    kind = connection.execute(
        "SELECT relkind::text, relpersistence::text FROM pg_class WHERE oid = %s", (oid,)
    ).fetchone()
    if kind not in {("r", "p"), ("p", "p")}:
        raise JobRefused(f"{at} is not an ordinary, logged table; name another in the job file")
    found: dict[str, str] = dict(
        connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped",
            (oid,),
        ).fetchall()
    )
    wrong = [
        f"{name} is {found[name]}, not {kind}" if name in found else f"{name} ({kind}) is missing"
        for name, kind in layout.columns().items()
        if found.get(name) != kind
    ]
    if wrong:
        raise JobRefused(
            f"{at} does not fit the job: {'; '.join(wrong)}. Name another table in the job file, or "
            "drop this one: the topic is then counted from its beginning"
        )
    if not _is_unique(connection, layout, oid):
        raise JobRefused(
            f"{at} has no unique constraint on ({', '.join(layout.unique())}) with NULLS NOT DISTINCT, "
            "by which a row could be found: add one, or name another table in the job file"
        )


def _is_unique(connection: Connection, layout: Layout, oid: int) -> bool:
    indexes = connection.execute(
        "SELECT array_agg(a.attname::text), i.indnullsnotdistinct OR bool_and(a.attnotnull) "
        "FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) "
        "WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indpred IS NULL "
        "AND i.indexprs IS NULL GROUP BY i.indexrelid, i.indnullsnotdistinct",
        (oid,),
    )
    return any(set(names) == set(layout.unique()) and holds for names, holds in indexes)


def _check_view(connection: Connection, layout: Layout, oid: int, view: int) -> None:
    found = connection.execute(
        "SELECT 1 FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND "
        "d.objid = r.oid WHERE r.ev_class = %s AND d.refclassid = 'pg_class'::regclass AND "
        "d.refobjid = %s LIMIT 1",
        (view, oid),
    )
    if found.fetchone() is None:
        raise JobRefused(
            f"{layout.table}_final in {where(connection)} is not a view of {layout.table}, as when a table "
            "was renamed and its view was not: rename or drop it, or name another table in the job file"
        )


def _check_empty(connection: Connection, layout: Layout) -> None:
    rows = connection.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(layout.name))
    if rows.fetchone() is not None:
        raise JobRefused(
            f"{layout.table} in {where(connection)} has rows, and nothing tells what they were counted "
            "from: name another table in the job file, or drop or empty this one"
        )


def _check_same(
    layout: Layout, source: Source, topic: str, topic_id: str, definition: Mapping[str, Any]
) -> None:
    begin_anew = "name another table in the job file, or drop this one to begin anew"
    if topic != source.span.topic:
        raise JobRefused(
            f"{layout.table} is counted from topic {topic!r}, not {source.span.topic!r}: {begin_anew}"
        )
    if topic_id != source.topic_id:
        raise JobRefused(
            f"topic {topic!r} was deleted and created again since {layout.table} was counted from it: "
            f"{begin_anew}"
        )
    now = source.definition
    changed = [
        f"{name} was {definition.get(name)!r} and is {now.get(name)!r}"
        for name in sorted({*definition, *now})
        if definition.get(name) != now.get(name)
    ]
    if changed:
        raise JobRefused(
            f"the rows of {layout.table} were counted in another way: {'; '.join(changed)}. Put that "
            f"back, {begin_anew}"
        )


def _check_reaches(
    layout: Layout, span: TopicRange, partition: int, next_offset: int, skip_deleted: bool
) -> None:
    at = f"{span.topic!r}, partition {partition}"
    if next_offset < span.starts[partition] and not skip_deleted:
        raise RecordsExpired(
            f"{at}: {layout.table} is counted to before offset {next_offset}, and the topic begins at "
            f"{span.starts[partition]}: what was between was deleted before it was counted. With "
            "--skip-deleted the job goes on without it; or drop the table to begin anew"
        )
    if next_offset > span.ends[partition]:
        raise JobRefused(
            f"{at}: {layout.table} is counted to before offset {next_offset}, and the topic ends at "
            f"{span.ends[partition]}: it has lost records. Name another table in the job file"
        )
