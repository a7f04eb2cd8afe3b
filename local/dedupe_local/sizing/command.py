"""`dedupe size`: the resources that a stream will need.

The command parses the options, calls one of the two calculations and prints its report.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from math import isfinite

import click

from dedupe_crds.command_line import DurationType
from dedupe_crds.quantity import format_duration, parse_size
from dedupe_local.sizing.constants import measured
from dedupe_local.sizing.inverse_bloom import Routes, Wanted, render, table_size
from dedupe_local.sizing.prices import PRICES, cost_rows, parse_prices
from dedupe_local.sizing.report import as_text, as_yaml, notes, rows, warnings
from dedupe_local.sizing.rocksdb import Traffic, ids_of_bytes, rate_of_ids, size

_DAY_SECONDS = 86_400
_DEFAULT = Traffic(messages_per_second=1, window=timedelta(weeks=4))
_RATES = ("messages_per_second", "messages_per_day", "ids", "stored")
_LONGEST = timedelta(days=3650)  # of a manifest's window


class _Number(click.FloatRange):
    """A finite number within bounds."""

    def convert(
        self, value: float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = float(super().convert(value, param, ctx))
        if not isfinite(found):
            self.fail(f"{value} is not a finite number", param, ctx)
        return found


_RATE = _Number(min=0, min_open=True, max=1e12)
_COUNT = _Number(min=0, min_open=True, max=1e18)


class _Bytes(click.ParamType[int]):
    name = "size"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _prices(_ctx: click.Context, _param: click.Parameter, texts: Sequence[str]) -> dict[str, float]:
    try:
        return parse_prices(texts)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command("size", context_settings={"show_default": True})
@click.option(
    "--messages-per-second", type=_RATE, help="Messages per second, on average over the window."
)
@click.option("--messages-per-day", type=_COUNT, help="Messages per day, instead of per second.")
@click.option("--ids", type=_COUNT, help="Instead of a rate: ids in the window, such as 60e9.")
@click.option(
    "--stored",
    type=_Bytes(),
    help="Instead of a rate: total size of all stores, such as 1.5T.",
)
@click.option(
    "--window",
    type=DurationType(positive=True, most=_LONGEST),
    default="4w",
    help="Window: how long ids are remembered, such as 28d, 4w or 12h.",
)
@click.option(
    "--duplicates",
    type=_Number(0, 1, max_open=True),
    default=_DEFAULT.duplicates,
    help="Share of the messages that are duplicates.",
)
@click.option(
    "--id-bytes",
    type=click.IntRange(1, 1 << 20),
    default=_DEFAULT.id_bytes,
    help="Size of an id in its message: 36 for a UUID as text. A store takes 16 bytes for any id.",
)
@click.option(
    "--value-bytes",
    type=click.IntRange(0, 1 << 30),
    default=_DEFAULT.value_bytes,
    help="Size of a message's value: larger ones cost more CPU time, in a rebuild too.",
)
@click.option(
    "--headroom",
    type=_Number(min=1, max=1000),
    default=_DEFAULT.headroom,
    help="Capacity of the workers as a multiple of the average rate, for peaks and to catch up.",
)
@click.option(
    "--rebuild-within",
    type=DurationType(positive=True, most=_LONGEST),
    default=format_duration(_DEFAULT.rebuild_within),
    help="Time limit for the rebuild of a lost store from the output topic.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1, 10_000),
    help="Number of partitions, if the topic exists already.",
)
@click.option("--snapshots", is_flag=True, help="Include what snapshots need.")
@click.option(
    "--price",
    "prices",
    multiple=True,
    metavar="NAME=PRICE",
    callback=_prices,
    help="Price of a resource for a month, in any currency (repeatable). Names: "
    + ", ".join(PRICES)
    + ".",
)
@click.option(
    "--inverse-bloom",
    is_flag=True,
    help="Size the table of a partition, for store.type: InverseBloom: by --slots, by --memory, or by --messages "
    "and --retain.",
)
@click.option(
    "--slots", type=click.IntRange(min=1), help="With --inverse-bloom: number of ids in the table."
)
@click.option(
    "--memory", type=_Bytes(), help="With --inverse-bloom: memory of the table, such as 1Gi."
)
@click.option(
    "--messages",
    type=click.IntRange(min=1),
    help="With --inverse-bloom: number of later messages after which the retained share is calculated.",
)
@click.option(
    "--retain",
    type=_Number(0.01, 0.999),
    help="With --inverse-bloom: share of the ids that must be retained after --messages.",
)
@click.option(
    "--routes",
    type=click.Choice([routes.value for routes in Routes]),
    default=Routes.NONE.value,
    callback=lambda _ctx, _param, text: Routes(text),
    help="With --inverse-bloom: the side topic with policy: Topic, which makes a slot wider; for both: conflicts.",
)
@click.option(
    "--output",
    "form",
    type=click.Choice(["table", "json", "yaml-fragment"]),
    default="table",
    help="Format: a table with formulas, JSON, or fields for a manifest.",
)
def size_command(
    *,
    messages_per_second: float | None,
    messages_per_day: float | None,
    ids: float | None,
    stored: int | None,
    prices: Mapping[str, float],
    form: str,
    window: timedelta,
    duplicates: float,
    id_bytes: int,
    value_bytes: int,
    headroom: float,
    rebuild_within: timedelta,
    partitions: int | None,
    snapshots: bool,
    inverse_bloom: bool,
    slots: int | None,
    memory: int | None,
    messages: int | None,
    retain: float | None,
    routes: Routes,
) -> None:
    """Calculate the resources of a stream.

    These are partitions, cores, memory, disk and the window's maxBytes. They follow from its traffic and from the
    measured performance of a worker. With --inverse-bloom: the size of a table, and the share of ids that it retains.
    """
    wanted = Wanted(slots=slots, memory=memory, messages=messages, retain=retain, routes=routes)
    if inverse_bloom:
        click.echo(_render_table(wanted, form, snapshots=snapshots))
        return
    if wanted != Wanted():
        raise click.UsageError(
            "--slots, --memory, --messages, --retain and --routes are for --inverse-bloom."
        )
    rates = [
        messages_per_second,
        messages_per_day and messages_per_day / _DAY_SECONDS,
        ids and rate_of_ids(ids, window, duplicates),
        stored and rate_of_ids(ids_of_bytes(stored, measured()), window, duplicates),
    ]
    given = [rate for rate in rates if rate is not None]
    if len(given) != 1 or not given[0]:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in _RATES)
        raise click.UsageError(f"Give the traffic by exactly one of {options}.")
    traffic = Traffic(
        messages_per_second=given[0],
        window=window,
        id_bytes=id_bytes,
        value_bytes=value_bytes,
        duplicates=duplicates,
        headroom=headroom,
        rebuild_within=rebuild_within,
        snapshots=snapshots,
        partitions=partitions,
    )
    click.echo(_render(traffic, prices, form))


def _render_table(wanted: Wanted, form: str, *, snapshots: bool) -> str:
    try:
        found = table_size(wanted, snapshots=snapshots)
    except ValueError as error:
        raise click.UsageError(f"--inverse-bloom: {error}.") from error
    return render(wanted, found, form, snapshots=snapshots)


def _render(traffic: Traffic, prices: Mapping[str, float], form: str) -> str:
    constants = measured()
    found = size(traffic, constants)
    match form:
        case "json":
            given = asdict(traffic) | {
                "window": traffic.window.total_seconds(),
                "rebuild_within": traffic.rebuild_within.total_seconds(),
            }
            document = {
                "traffic": given,
                "size": asdict(found),
                "measured": constants.model_dump(),
                "warnings": warnings(traffic, found, constants),
            }
            return json.dumps(document, indent=2)
        case "yaml-fragment":
            return as_yaml(found, traffic.window, warnings(traffic, found, constants))
        case _:
            costs = cost_rows(traffic, found, prices) if prices else []
            lines = [*rows(traffic, found, constants), *costs]
            return as_text(lines, notes(traffic, found, constants))
