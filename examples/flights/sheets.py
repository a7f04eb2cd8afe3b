"""The tables of results, for the terminal and the page."""

from dataclasses import dataclass

from examples.flights.outcome import Answer, Counting, Outcome, Read, Skipping


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table; its first column names the rows.

    `colours` are rich styles of the columns, if given.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    colours: tuple[str, ...] = ()


def question(outcome: Outcome) -> Sheet:
    """Return the answers of the clean and of the raw topic."""
    clean, raw = _answer(outcome.clean_answer), _answer(outcome.raw_answer)
    return Sheet(
        title="On which day of 2013 did most flights leave New York?",
        columns=("", "clean topic", "raw topic, with duplicates"),
        rows=tuple((name, text, raw[name]) for name, text in clean.items()),
        colours=("dim", "green", "yellow"),
    )


def scattered(outcome: Outcome) -> Sheet:
    """Return what became of duplicates with and without an earlier copy in their partition."""
    found, sent = outcome.audit.total, outcome.sent
    passed = found.duplicated_in_another_partition
    removed = sent.repeats_in_another_partition - passed
    return Sheet(
        title="Duplicates without a key",
        columns=("an earlier copy is", "sent", "removed", "passed on"),
        rows=(
            (
                "in the same partition",
                f"{sent.repeats - sent.repeats_in_another_partition:,}",
                f"{found.removed - removed:,}",
                f"{found.duplicated - passed:,}",
            ),
            (
                "only in another partition",
                f"{sent.repeats_in_another_partition:,}",
                f"{removed:,}",
                f"{passed:,}",
            ),
        ),
        notes=outcome.audit.advice,
        colours=("", "", "green", "red"),
    )


def reads(skipping: Skipping) -> Sheet:
    """Return the reads of a carrier's flights, with and without skipping."""
    everything, chosen = skipping.reads[:2]
    saved = 1 - chosen.fetched_bytes / max(1, everything.fetched_bytes)
    same = all(read.right for read in skipping.reads)
    notes = [
        f"{'All reads' if same else 'Not all reads'} found the same flights. With chunk filters, the plain reader "
        f"fetched {saved:.0%} less.",
        "Filters help because each carrier sent a month's flights at once, so most chunks (a worker's transactions) "
        "contain few carriers. In the order of departure, each chunk would contain all carriers, and no chunk "
        "could be skipped.",
    ]
    spark = [read.seconds for read in skipping.reads[2:]]
    if spark and spark[-1] > spark[0]:
        notes.append(
            "For the source with filters, Spark starts Python processes, which here took longer than fetching all. "
            "It always saves bytes, and it saves time when there is more to skip."
        )
    return Sheet(
        title=f"Flights of {skipping.carrier} in the clean topic",
        columns=("", "fetched", "chunks skipped", "took", "flights"),
        rows=tuple(_read(each) for each in skipping.reads),
        notes=tuple(notes),
    )


def counted(counting: Counting) -> Sheet:
    """Return the carriers with most flights, with their totals in PostgreSQL."""
    right = (
        f"{counting.wrong_rows:,} rows are wrong or missing"
        if counting.wrong_rows
        else f"all {counting.rows:,} rows are equal to the totals of the flights themselves"
    )
    return Sheet(
        title=f"Delays, from table {counting.table} in PostgreSQL",
        columns=("carrier", "flights", "departures", "mean delay", "worst delay"),
        rows=tuple(
            (
                delays.carrier,
                f"{delays.flights:,}",
                f"{delays.departures:,}",
                f"{delays.mean_delay_minutes:.1f} min",
                f"{delays.worst_delay_minutes:,} min",
            )
            for delays in counting.most_flights
        ),
        notes=(
            f"The job was killed at {counting.killed_at:,} of {counting.records:,} records and run again: {right}.",
        ),
    )


def _answer(answer: Answer) -> dict[str, str]:
    return {
        "busiest day": answer.busiest_day,
        "flights that day": f"{answer.flights_that_day:,}",
        "median delay that day": f"{answer.median_delay_minutes:+.0f} min",
        "flights in total": f"{answer.flights_in_all:,}",
    }


def _read(read: Read) -> tuple[str, ...]:
    chunks = "" if read.chunks is None else f"{read.chunks_skipped:,} of {read.chunks:,}"
    found = f"{read.records:,}" + ("" if read.right else ", wrong")
    return (
        read.reader,
        f"{read.fetched_bytes / 1e6:,.1f} MB",
        chunks,
        f"{read.seconds:.2f} s",
        found,
    )
