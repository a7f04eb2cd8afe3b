"""Show an audit's result: a table for the terminal, and an HTML page.

The command `dedupe-pipeline audit` and the examples call it.
"""

from collections.abc import Iterator
from dataclasses import fields

from jinja2 import PackageLoader
from markupsafe import Markup
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from dedupe_crds.spec.topics import Mode
from dedupe_pipeline.jobs.audit.result import (
    AuditResult,
    Defect,
    Distribution,
    Outcome,
    PartitionAudit,
)
from dedupe_pipeline.jobs.audit.verdicts import DEFECTS
from dedupe_pipeline.pages.templates import templates

_WITHOUT_DEFECTS = {
    Mode.ENFORCE: "each message exactly once",
    Mode.OBSERVE: "every copy of each message",
}
_EXCUSED = {
    "before_input": "of the output are from before the input begins",
    "before_output": "of the input are from before the output begins",
    "beyond_window": "repeats passed because they came after the window",
    "forgotten": "repeats passed because the table had forgotten their id",
    "forgotten_on_request": "repeats passed because their id was forgotten on request",
    "known_before": "were known before the stream began",
}
_COLOURS = {Outcome.CLEAN: "green", Outcome.DEFECTS: "red", Outcome.NOTHING_JUDGED: "yellow"}


def print_result(result: AuditResult, console: Console) -> None:
    """Print the verdict, the counts of each partition, and the places of defects."""
    colour = _COLOURS[result.outcome]
    verdict = Text(f"{result.stream}: {_verdict(result, 'in order')}", style=f"bold {colour}")
    console.print(Group(verdict, _partition_table(result)))
    total = result.total
    console.print(
        f"{total.raw_records:,} records in, {total.repeats:,} of those judged are repeats "
        f"({result.duplicate_rate:.2%}), {total.clean_records:,} out"
        + (f"; {total.late:,} late, in {result.late_topic}" if result.late_topic else "")
        + f"; judged in {result.seconds:.1f} s"
    )
    if excused := _excused(result):
        console.print(excused)
    if note := _note(result):
        console.print(note)
    for name, spread in (("delay", result.delay), ("distance", result.distance)):
        if spread.p50 is not None:
            console.print(f"{name} of repeats: {quantiles(spread)}")
    if total.duplicated_in_another_partition:
        console.print(Text(in_another_partition(result), style="bold red"))
    for advice in result.advice:
        console.print(Text(advice, style="yellow"))
    for warning in result.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
    for defect in result.examples:
        console.print(f"  {_place(defect)}")


def html_page(result: AuditResult) -> str:
    """Return a self-contained HTML page in light and dark colours."""
    environment = templates(PackageLoader("dedupe_pipeline.jobs.audit", "."))
    total = result.total
    return environment.get_template("audit.html.j2").render(
        result=result,
        defects=DEFECTS,
        columns=[f.name for f in fields(PartitionAudit) if _is_shown(result, f.name)],
        verdict=_verdict(result, "byte for byte, in order"),
        note=_note(result),
        excused=_excused(result),
        number=_number,
        across=in_another_partition(result) if total.duplicated_in_another_partition else None,
        rows=(*result.partitions, total),
        headline=(
            ("raw records", f"{total.raw_records:,}"),
            ("clean records", f"{total.clean_records:,}"),
            ("duplicates removed", f"{total.removed:,}"),
            *_other_content(result),
            ("duplicate rate", f"{result.duplicate_rate:.2%}"),
            ("without an id", f"{total.without_id:,}"),
            *_late(result),
            ("pending", f"{total.pending:,}"),
        ),
        pictures=[(title, caption, Markup(svg)) for title, caption, svg in _pictures(result)],  # noqa: S704 (made by plots, from numbers)
    )


def _late(result: AuditResult) -> Iterator[tuple[str, str]]:
    if result.late_topic:
        yield "late", f"{result.total.late:,}"


def _other_content(result: AuditResult) -> Iterator[tuple[str, str]]:
    if count := result.total.removed_with_other_content:
        yield "removed with another content", f"{count:,}"


def _is_shown(result: AuditResult, name: str) -> bool:
    if name == "late":
        return result.late_topic is not None
    if name in _EXCUSED or name == "removed_with_other_content":
        return bool(getattr(result.total, name))
    return True


def _excused(result: AuditResult) -> str:
    """Return what was found that a healthy stream does, too."""
    counts = {name: getattr(result.total, name) for name in _EXCUSED}
    found = [f"{count:,} {_EXCUSED[name]}" for name, count in counts.items() if count]
    return f"no defects: {'; '.join(found)} (docs/audit.md)" if found else ""


def _note(result: AuditResult) -> str:
    """Return how records are counted by partition if that is not evident."""
    if result.repartitioned_by is None:
        return ""
    none = any(partition.partition is None for partition in result.partitions)
    return "Partitions are those of the output; raw records count where their id came out" + (
        ", and in the row “none” if it did not." if none else "."
    )


def quantiles(spread: Distribution) -> str:
    """Describe the quantiles of a distribution in one line."""
    named = (("half", spread.p50), ("90 %", spread.p90), ("99 %", spread.p99))
    within = ", ".join(f"{name} within {_amount(value, spread.unit)}" for name, value in named)
    return f"{within}, all within {_amount(spread.maximum, spread.unit)}"


def _pictures(result: AuditResult) -> list[tuple[str, str, str]]:
    # Matplotlib is a quarter of what the command imports, and only a page needs it.
    from dedupe_pipeline.jobs.audit import plots  # noqa: PLC0415

    pictures = []
    if result.timeline:
        by_time = "By the timestamps of the records (UTC)."
        pictures += [
            ("Throughput", by_time, plots.throughput(result.timeline)),
            ("Duplicate rate", by_time, plots.duplicate_rate(result.timeline)),
        ]
    for title, spread, label in (
        ("Delay of repeats", result.delay, "time since the first copy"),
        ("Distance of repeats", result.distance, "records since the first copy"),
    ):
        if spread.bins:
            pictures.append((title, f"{quantiles(spread)}.", plots.histogram(spread, label)))
    return pictures


def in_another_partition(result: AuditResult) -> str:
    """Return how many defects are duplicates across partitions."""
    total = result.total
    return (
        f"{total.duplicated_in_another_partition:,} of {total.duplicated:,} duplicated records have their other copy "
        f"in another partition of {result.clean_topic}"
    )


def _verdict(result: AuditResult, praise: str) -> str:
    """Return the verdict, and of how many records it is."""
    total = result.total
    judged = f"judged {total.judged_records:,} of {total.raw_records:,} input records"
    if total.pending:
        judged += f", {total.pending:,} are pending"
    if total.removed_with_other_content:
        judged += f"; {total.removed_with_other_content:,} removed with another content"
    match result.outcome:
        case Outcome.DEFECTS:
            return f"{total.defects:,} {'defect' if total.defects == 1 else 'defects'}; {judged}"
        case Outcome.NOTHING_JUDGED:
            return f"nothing was judged; {judged}"
        case Outcome.CLEAN:
            return f"{_WITHOUT_DEFECTS[result.mode]}, {praise}; {judged}"


def _partition_table(result: AuditResult) -> Table:
    title = f"records of {result.raw_topic} → {result.clean_topic}"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False)
    # The columns that fit in 80 characters; the page and the JSON have all columns.
    names = ["partition", "raw_records", "clean_records", "removed", *DEFECTS]
    for name in names:
        table.add_column(name.removesuffix("_records"), justify="right", no_wrap=True)
    for partition in (*result.partitions, result.total):
        cells = []
        for name in names:
            count = getattr(partition, name)
            shown = _number(count) if name == "partition" else f"{count:,}"
            cells.append(Text(shown, style="bold red" if name in DEFECTS and count else ""))
        table.add_row(*cells, end_section=partition is result.partitions[-1])
    return table


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return "unknown"
    if unit != "ms":
        return f"{value:,.0f} {unit}"
    for factor, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {name}"
    return f"{value:.0f} ms"


def _place(defect: Defect) -> str:
    clean = f"clean offset {_or_none(defect.clean_offset)}"
    if defect.origin is not None:
        place = f"raw {defect.origin} offset {defect.raw_offset}, "
        place += (
            "not in the output"
            if defect.partition is None
            else f"partition {defect.partition}, {clean}"
        )
    else:
        place = f"partition {defect.partition}, raw offset {_or_none(defect.raw_offset)}, {clean}"
    if defect.other_partition is None:
        return f"{defect.verdict}: {place}"
    other = f"partition {defect.other_partition}, clean offset {_or_none(defect.other_offset)}"
    return f"{defect.verdict} in another partition: {place}; other copy in {other}"


def _number(partition: int | None) -> str:
    if partition is None:
        return "none"
    return "all" if partition < 0 else f"{partition:,}"


def _or_none(offset: int | None) -> str:
    return "none" if offset is None else str(offset)
