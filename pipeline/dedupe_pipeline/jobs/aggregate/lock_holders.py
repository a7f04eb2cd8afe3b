"""Name the sessions that hold a lock for which a statement waited in vain.

`exactly_once_writer` calls it after the wait, on the same connection. By then PostgreSQL no longer knows for whom the
statement waited, but the others still hold their locks, or wait in front of it.
"""

from collections.abc import Collection

from psycopg import Connection

# Of ALTER TABLE, VACUUM FULL, CREATE INDEX, LOCK TABLE: nothing is added while one is held, or waits for others.
_OF_TABLES = ["ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock"]
# Of transactions that have changed or locked rows, perhaps those that are added to.
_OF_ROWS = ["RowShareLock", "RowExclusiveLock"]
_SHOWN = 3


def describe_holders(connection: Connection, tables: Collection[str]) -> str:
    """Return who holds or awaits a lock on one of these tables, and what to do."""
    found = _holders(connection, tables, _OF_TABLES) or _holders(connection, tables, _OF_ROWS)
    if not found:
        return "no session holds one now; if it happens again, look into pg_prepared_xacts for prepared transactions"
    texts = _sessions(connection, {pid for holder in found for pid in (holder[0], *holder[2])})
    parts = []
    for pid, table, blockers in found[:_SHOWN]:
        waits = " and ".join(texts[each] for each in blockers if each in texts)
        part = f"{table} is {'awaited' if waits else 'locked'} by {texts.get(pid, pid)}"
        parts.append(f"{part}, which waits for {waits}" if waits else part)
    roots = sorted({root for pid, _, blockers in found[:_SHOWN] for root in blockers or [pid]})
    ends = "; ".join(f"SELECT pg_terminate_backend({pid})" for pid in roots)
    return f"{'; '.join(parts)}. Let it end, or end it: {ends}"


def _holders(
    connection: Connection, tables: Collection[str], modes: list[str]
) -> list[tuple[int, str, list[int]]]:
    """Return session, table, and whom it waits for; first those that wait.

    A transaction that waits comes first because others queue behind it, whatever they need.
    """
    return connection.execute(
        "SELECT pid, min(relation::regclass::text), pg_blocking_pids(pid) FROM pg_locks WHERE locktype = "
        "'relation' AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND "
        "relation = ANY(SELECT to_regclass(name)::oid FROM unnest(%s::text[]) AS name) AND "
        "mode = ANY(%s) AND pid <> pg_backend_pid() GROUP BY pid ORDER BY bool_and(granted), pid",
        (list(tables), modes),
    ).fetchall()


def _sessions(connection: Connection, pids: Collection[int]) -> dict[int, str]:
    """Describe sessions; only a superuser sees the statements of other users."""
    rows = connection.execute(
        "SELECT pid, coalesce(usename, 'another user'), coalesce(host(client_addr), 'this host'), "
        "coalesce(to_char(xact_start, 'YYYY-MM-DD HH24:MI:SS \"UTC\"'), 'an unknown time'), "
        "left(regexp_replace(query, '\\s+', ' ', 'g'), 120) FROM pg_stat_activity WHERE pid = ANY(%s)",
        (list(pids),),
    )
    return {
        pid: f"session {pid} ({user} from {address}, its transaction since {since}: {query})"
        for pid, user, address, since, query in rows
    }
