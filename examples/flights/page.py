"""The demo's page: what was seen, in pictures and in words. It needs nothing but itself."""

from pathlib import Path

from jinja2 import FileSystemLoader
from markupsafe import Markup

from dedupe_pipeline.jobs.audit.report import quantiles
from dedupe_pipeline.plots import templates
from examples.flights import plots, sheets
from examples.flights.outcome import Outcome
from examples.flights.summary import figures


def html_page(outcome: Outcome) -> str:
    """One self-contained page, readable in light and dark; it links to `audit.html`."""
    environment = templates(FileSystemLoader(Path(__file__).parent))
    found = outcome.audit.total
    tables = [sheets.question(outcome)]
    if outcome.skipping:
        tables.append(sheets.reads(outcome.skipping))
    if outcome.counting:
        tables.append(sheets.counted(outcome.counting))
    pictures = _pictures(outcome)
    return environment.get_template("index.html.j2").render(
        judged_at=outcome.audit.judged_at,
        problems=outcome.problems(),
        headline=(
            ("records in", f"{found.raw_records:,}", False),
            ("flights out", f"{found.clean_records:,}", False),
            ("duplicates removed", f"{found.removed:,}", False),
            ("lost", f"{found.lost:,}", found.lost > 0),
            ("twice", f"{found.duplicated:,}", found.duplicated > 0),
            ("s until it was back", f"{outcome.recovery.output_seconds:.1f}", False),
        ),
        pictures=[(title, words, Markup(svg)) for title, words, svg in pictures],  # noqa: S704 (made in plots, from numbers)
        tables=tables,
        figures=figures(outcome),
    )


def _pictures(outcome: Outcome) -> list[tuple[str, str, str]]:
    recovery = outcome.recovery
    return [
        (
            "A worker is killed, and the stream goes on",
            _of_rates(outcome),
            plots.rates(outcome.timeline, recovery),
        ),
        (
            "What the workers remember",
            _of_windows(outcome),
            plots.windows(outcome.timeline, recovery),
        ),
        (
            "How old duplicates are",
            _of_ages(outcome),
            plots.ages(outcome.explained.ages_ms),
        ),
    ]


def _of_rates(outcome: Outcome) -> str:
    recovery, found = outcome.recovery, outcome.audit.total
    return (
        f"Worker {recovery.partition} of {outcome.partitions} is killed with SIGKILL after "
        f"{recovery.killed_at_seconds:.1f} s. Its input waits in Kafka while the other partitions go on, until "
        f"theirs is read; {recovery.ready_seconds:.1f} s later (dotted) its successor is ready, having read "
        f"{recovery.reconciled_records:,} records of the clean topic that its store had missed, and after "
        f"{recovery.output_seconds:.1f} s its next record is out. The clean topic gets {found.removed:,} "
        "records fewer, the duplicates. Rates are over a second each; what workers put out is as they tell it, "
        "twice a second, so that the last half second of the one that was killed is missing here, and only here."
    )


def _of_windows(outcome: Outcome) -> str:
    recovery = outcome.recovery
    looks = outcome.timeline.looks[recovery.partition]
    first = min((look.window_seconds for look in looks if look.process), default=0.0)
    last = max((look.window_seconds for look in looks if not look.process), default=0.0)
    goes_on = (
        "begins anew: the successor knows every id of its predecessor, and counts the age of those that it read back "
        "from when it did, so that it never claims to remember more than it does"
        if first < last
        else "goes on where it was: what its store had not lost has kept its age"
    )
    return (
        "Each line is the age of the oldest id that a worker remembers, since its store learnt it. It grows by a "
        "second each second, as nothing is old enough to be forgotten yet. That of partition "
        f"{recovery.partition} ends with its worker, and {goes_on}. No repeat from before the kill has passed after it."
    )


def _of_ages(outcome: Outcome) -> str:
    sent, found = outcome.sent, outcome.explained
    return (
        f"From the topic of duplicates, where each of the {found.records:,} is kept with the partition and offset of "
        f"the record that it repeats, and its age. The {sent.retries:,} retries repeat a record byte for byte, its "
        f"timestamp included, so their age is 0; the {sent.replays:,} replays were sent again later. "
        f"Of all: {quantiles(plots.distribution(found.ages_ms))}. In production they come weeks apart, and are "
        "recognised within the window."
    )
