"""The expected table of job `aggregate`, computed in plain Python from a topic.

It knows one kind of value, `{"carrier": text, "time": ISO 8601, "delay": whole number}`, of which each field may be
absent or null, and the jobs that `job` makes.
"""

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from dedupe_pipeline.jobs.aggregate import AggregateJob
from tests.support.checker.record import Message, Record

START = datetime(2013, 1, 1, tzinfo=UTC)
CARRIERS = ("AA", "B6", "", "Ü ☂", 'quoted "and", comma', "null", "N\\A", "nul\0in", None)
NOT_WANTED = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNREADABLE = (
    None,
    b"",
    b"{",
    b"not JSON",
    b'{"carrier": "AA", "delay": 1}',
    b'{"carrier": "AA", "time": null, "delay": 1}',
    b'{"carrier": "AA", "time": "yesterday", "delay": 1}',
    b'{"carrier": "AA", "time": "2013-01-01T00:00:00Z", "delay": "ten"}',
    b'{"carrier": "AA", "time": "0999-12-31T00:00:00Z", "delay": 1}',
    json.dumps({"carrier": "x" * 2_001, "time": "2013-01-01T00:00:00Z"}).encode(),
)

_READABLE = (
    b'{"carrier": "AA", "time": "2013-01-01T00:00:00Z", "delay": 1} and no more JSON',
    b'{"carrier": "AA", "time": "2013-01-01T00:00:00Z", "delay": 1}{"carrier": "B6", "time": 0}',
    b'{"carrier": 12, "time": "2013-01-01T00:00:00Z", "delay": 1}',
    b'{"carrier": {"of": ["AA", true]}, "time": "2013-01-01T00:00:00Z", "delay": 1}',
    b'{"carrier": "AA", "time": 1356998400, "delay": 1}',
)
"""Values that are valid although they may not seem so."""
_ODD = (*_UNREADABLE, *_READABLE)

Key = tuple[datetime, str | None]
"""Start of a window, and carrier."""


def job(table: str, **changes: object) -> AggregateJob:
    """Return a job: departures and delays by carrier and hour.

    `changes` are named as in the job's file.
    """
    return AggregateJob.model_validate(
        {
            "table": table,
            "schema": "carrier STRING, time TIMESTAMP, delay INT",
            "eventTime": "time",
            "window": "1h",
            "watermark": "90m",
            "where": f"delay IS NULL OR delay <> {NOT_WANTED}",
            "keys": ["carrier"],
            "measures": {
                "flights": "count(*)",
                "delayed": "count(delay)",
                "total": "sum(delay)",
                "least": "min(delay)",
                "worst": "max(delay)",
            },
            **changes,
        },
        by_alias=True,
        by_name=False,
    )


def messages(seed: int, count: int, *, partitions: int, start: int = 0) -> Iterator[Message]:
    """Yield flights roughly in order of time; some are far off, odd or unusable."""
    for number in range(start, start + count):
        rng = random.Random(f"{seed}/{number}")
        partition, value = rng.randrange(partitions), rng.choice(_ODD)
        if rng.random() > 0.05:
            minutes = number * 600 / max(count, 1) - rng.choice((0, 5, 30, 120, 300)) * rng.random()
            value = _flight(rng, START + timedelta(minutes=minutes))
        yield Message(partition, f"{number}".encode(), value, timestamp_ms=number + 1)


def _flight(rng: random.Random, time: datetime) -> bytes:
    delay = rng.choice((None, 0, -5, rng.randrange(2_000), NOT_WANTED))
    flight: dict[str, Any] = {"carrier": rng.choice(CARRIERS), "delay": delay, "more": [1]}
    return json.dumps({**flight, "time": time.isoformat()}).encode()


@dataclass
class Row:
    """The measures of a window and a carrier."""

    flights: int = 0
    delays: list[int] = field(default_factory=list)
    late: int = 0

    def columns(self) -> tuple[int | None, ...]:
        """Return flights, delayed, total, least, worst, late."""
        some = self.delays or None
        extremes = (some and sum(some), some and min(some), some and max(some))
        return self.flights, len(self.delays), *extremes, self.late


@dataclass
class Account:
    """The counts of a partition's records, by result."""

    records: int = 0
    counted: int = 0
    late: int = 0
    filtered: int = 0
    unusable: int = 0
    newest: datetime | None = None


@dataclass
class Truth:
    """The expected table, and the account of each partition that has records."""

    rows: dict[Key, Row]
    accounts: dict[int, Account]

    def table(self, job: AggregateJob) -> dict[Key, tuple[int | None, ...]]:
        """Return the expected rows; late records are 0 if the table has no such column."""
        if job.counts_late:
            return {key: row.columns() for key, row in self.rows.items()}
        return {key: (*row.columns()[:-1], 0) for key, row in self.rows.items() if row.flights}


def truth(records: Iterable[Record], job: AggregateJob) -> Truth:
    """Compute the expected result, record by record in each partition."""
    found = Truth(rows=defaultdict(Row), accounts=defaultdict(Account))
    for record in sorted(records, key=lambda record: (record.partition, record.offset)):
        account = found.accounts[record.partition]
        account.records += 1
        flight = _usable(record.value)
        if flight is None:
            account.unusable += 1
            continue
        _place(flight, job, found, account)
        account.newest = max(filter(None, (account.newest, flight["time"])))
    return found


def _place(flight: dict[str, Any], job: AggregateJob, found: Truth, account: Account) -> None:
    delay = flight.get("delay")
    if delay == NOT_WANTED:
        account.filtered += 1
        return
    carrier = flight["carrier"] and flight["carrier"].replace("\0", "\ufffd")
    for start in _windows(flight["time"], job):
        row = found.rows[start, carrier]
        if _is_closed(start + job.window, job, account):
            row.late += 1
            account.late += 1
            continue
        account.counted += 1
        row.flights += 1
        if delay is not None:
            row.delays.append(delay)


def _is_closed(end: datetime, job: AggregateJob, account: Account) -> bool:
    if job.watermark is None or account.newest is None:
        return False
    return end <= account.newest - job.watermark


def _windows(time: datetime, job: AggregateJob) -> Iterator[datetime]:
    slide = job.slide or job.window
    start = time - (time - _EPOCH) % slide
    while start > time - job.window:
        yield start
        start -= slide


def _usable(value: bytes | None) -> dict[str, Any] | None:
    try:
        flight: dict[str, Any]
        flight, _ = json.JSONDecoder().raw_decode(
            (value or b"").decode()
        )  # the first JSON value counts
        flight["time"] = _time(flight["time"])
    except (ValueError, TypeError, KeyError):
        return None
    if isinstance(flight.get("delay"), str) or flight["time"].year < 1000:
        return None
    flight["carrier"] = _text(flight.get("carrier"))
    return None if len((flight["carrier"] or "").encode()) > 2_000 else flight


def _time(given: object) -> datetime:
    """Parse a time; a number counts seconds since 1970."""
    if isinstance(given, int):
        return _EPOCH + timedelta(seconds=given)
    if isinstance(given, str):
        return datetime.fromisoformat(given)
    raise TypeError


def _text(given: object) -> str | None:
    """Return a value as text; JSON other than text is written without spaces."""
    if given is None or isinstance(given, str):
        return given
    return json.dumps(given, separators=(",", ":"))
