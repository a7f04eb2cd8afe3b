"""The demo's self-contained HTML page: the measurements in plots and in words."""

from pathlib import Path

from jinja2 import FileSystemLoader
from markupsafe import Markup

from dedupe_pipeline.jobs.audit.report import quantiles
from dedupe_pipeline.pages.templates import templates
from examples.flights import plots
from examples.flights.outcome import Outcome
from examples.flights.summary import figures, tables, verdict


def html_page(outcome: Outcome) -> str:
    """Return a self-contained page for light and dark mode; it links to `audit.html`."""
    environment = templates(FileSystemLoader(Path(__file__).parent))
    found = outcome.audit.total
    pictures = _pictures(outcome)
    return environment.get_template("index.html.j2").render(
        title="Flights without keys: duplicates pass"
        if outcome.shows_passing
        else "Flights, exactly once",
        judged_at=outcome.audit.judged_at,
        problems=outcome.problems(),
        verdict=verdict(outcome),
        is_exactly_once=not outcome.shows_passing,
        headline=(
            ("records in", f"{found.raw_records:,}", False),
            (
                "records out" if outcome.shows_passing else "flights out",
                f"{found.clean_records:,}",
                False,
            ),
            ("duplicates removed", f"{found.removed:,}", False),
            ("lost", f"{found.lost:,}", found.lost > 0),
            ("duplicated", f"{found.duplicated:,}", found.duplicated > 0),
            ("s until recovery", f"{outcome.recovery.output_seconds:.1f}", False),
        ),
        pictures=[(title, words, Markup(svg)) for title, words, svg in pictures],  # noqa: S704 (plots make it from numbers)
        tables=tables(outcome),
        figures=figures(outcome),
    )


def _pictures(outcome: Outcome) -> list[tuple[str, str, str]]:
    recovery = outcome.recovery
    return [
        (
            "A worker is killed, and the stream continues",
            _of_rates(outcome),
            plots.rates(outcome.timeline, recovery),
        ),
        (
            "Window of the workers",
            _of_windows(outcome),
            plots.windows(outcome.timeline, recovery),
        ),
        (
            "Age of the duplicates",
            _of_ages(outcome),
            plots.ages(outcome.explained.ages_ms),
        ),
    ]


def _of_rates(outcome: Outcome) -> str:
    recovery, found = outcome.recovery, outcome.audit.total
    removed = (
        "the duplicates in the partition of their original"
        if outcome.shows_passing
        else "the duplicates"
    )
    return (
        f"Worker {recovery.partition} of {outcome.partitions} is killed with SIGKILL after "
        f"{recovery.killed_at_seconds:.1f} s. Its input waits in Kafka, while the other partitions continue. "
        f"{recovery.ready_seconds:.1f} s later (dotted) its successor is ready: it has read "
        f"{recovery.catch_up_records:,} records of the clean topic that its store lacked. After "
        f"{recovery.output_seconds:.1f} s its next record is in the clean topic, which gets {found.removed:,} "
        f"records fewer, {removed}. Each rate is an average over one second. Workers report their output "
        "twice a second, so the last half second of the killed worker is missing in this plot, and only there."
    )


def _of_windows(outcome: Outcome) -> str:
    recovery = outcome.recovery
    duplicate = (
        "duplicate in the partition of its original" if outcome.shows_passing else "duplicate"
    )
    samples = outcome.timeline.samples[recovery.partition]
    first = min((sample.window_seconds for sample in samples if sample.process), default=0.0)
    last = max((sample.window_seconds for sample in samples if not sample.process), default=0.0)
    successor = (
        "starts again at 0: the successor has every id of its predecessor, but the age of the ids that it read back "
        "counts from that read, so that it never reports a longer window than it has"
        if first < last
        else "continues: the ids that its store still had have kept their age"
    )
    return (
        "Each line is the age of the oldest id in a worker's store, since it was stored. It grows by one second per "
        "second, because no id is old enough to be evicted. The line of partition "
        f"{recovery.partition} ends with its worker, and {successor}. No {duplicate} of a record from before the kill "
        "was passed on after it."
    )


def _of_ages(outcome: Outcome) -> str:
    sent, found = outcome.sent, outcome.explained
    # Of the duplicates that were recognised the demo does not count retries and replays.
    records, retries, replays = (
        (f"the {found.records:,} that the workers recognised", "Retries", "Replays")
        if outcome.shows_passing
        else (
            f"all {found.records:,}",
            f"The {sent.retries:,} retries",
            f"The {sent.replays:,} replays",
        )
    )
    return (
        f"From the topic of duplicates: it has {records}, each with its age and with the partition and "
        f"offset of its original. {retries} repeat a record byte for byte, with its "
        f"timestamp, so their age is 0. {replays} were sent again later. "
        f"Of all: {quantiles(plots.distribution(found.ages_ms))}. In production duplicates can come weeks later; "
        "they are detected within the window."
    )
