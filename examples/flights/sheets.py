"""What is shown as a table, on the terminal as on the page."""

from dataclasses import dataclass

from examples.flights.outcome import Answer, Counting, Outcome, Read, Skipping


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table: the first column names its rows; `colours` are rich's styles of the columns, if there are any."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    colours: tuple[str, ...] = ()


def question(outcome: Outcome) -> Sheet:
    """The question, as the clean and the raw topic answer it."""
    clean, raw = _answer(outcome.clean_answer), _answer(outcome.raw_answer)
    return Sheet(
        title="On which day of 2013 did most flights leave New York?",
        columns=("", "clean topic", "raw topic, with its repeats"),
        rows=tuple((name, text, raw[name]) for name, text in clean.items()),
        colours=("dim", "green", "yellow"),
    )


def reads(skipping: Skipping) -> Sheet:
    """A carrier's flights, read in several ways: by the plain reader and by Spark, all and with chunks skipped."""
    everything, chosen = skipping.reads[:2]
    saved = 1 - chosen.fetched_bytes / max(1, everything.fetched_bytes)
    same = all(read.right for read in skipping.reads)
    notes = [
        f"{'All found' if same else 'Not all found'} the same flights; the plain reader that skips fetched "
        f"{saved:.0%} less.",
        "It pays because each carrier sent a month's flights at once, so that most chunks (a worker's "
        "transactions) hold few carriers. Sent in the order of departure, every chunk would hold every carrier, "
        "and nothing could be skipped.",
    ]
    spark = [read.seconds for read in skipping.reads[2:]]
    if spark and spark[-1] > spark[0]:
        notes.append(
            "Spark starts Python processes for the source that skips, which here took longer than fetching all: it "
            "saves bytes from the first, and time where there is more to skip."
        )
    return Sheet(
        title=f"The flights of {skipping.carrier}, of all in the clean topic",
        columns=("", "fetched", "chunks skipped", "took", "flights"),
        rows=tuple(_read(each) for each in skipping.reads),
        notes=tuple(notes),
    )


def counted(counting: Counting) -> Sheet:
    """The carriers with most flights, as PostgreSQL sums them up."""
    right = (
        f"{counting.wrong_rows:,} rows are wrong or missing"
        if counting.wrong_rows
        else f"each of {counting.rows:,} rows is what the flights themselves add up to"
    )
    return Sheet(
        title=f"Delays, from {counting.table} in PostgreSQL",
        columns=("carrier", "flights", "departures", "mean delay", "worst delay"),
        rows=tuple(
            (
                one.carrier,
                f"{one.flights:,}",
                f"{one.departures:,}",
                f"{one.mean_delay_minutes:.1f} min",
                f"{one.worst_delay_minutes:,} min",
            )
            for one in counting.most_flights
        ),
        notes=(
            f"The job was killed at {counting.killed_at:,} of {counting.records:,} records and run again: {right}.",
        ),
    )


def _answer(answer: Answer) -> dict[str, str]:
    return {
        "busiest day": answer.busiest_day,
        "flights that day": f"{answer.flights_that_day:,}",
        "their median delay": f"{answer.median_delay_minutes:+.0f} min",
        "flights in all": f"{answer.flights_in_all:,}",
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
