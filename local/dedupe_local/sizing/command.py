"""`dedupe size`: what a stream takes, before there is one."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta

import click

from dedupe_crds.quantity import format_duration, parse_duration, parse_size
from dedupe_local.sizing.constants import measured
from dedupe_local.sizing.inverse_bloom import Routes, Wanted, shown, table_size
from dedupe_local.sizing.report import PRICES, as_text, as_yaml, notes, rows
from dedupe_local.sizing.rocksdb import Traffic, ids_of_bytes, rate_of_ids, size

_DAY_SECONDS = 86_400
_DEFAULT = Traffic(messages_per_second=1, window=timedelta(weeks=4))
_RATES = ("messages_per_second", "messages_per_day", "ids", "stored")
_POSITIVE = click.FloatRange(min=0, min_open=True)


class _Time(click.ParamType[timedelta]):
    """A duration as in a manifest, or in weeks."""

    name = "duration"

    def convert(
        self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        if isinstance(value, timedelta):
            return value
        weeks, w, rest = value.partition("w")
        try:
            is_weeks = w and not rest and weeks.isdigit()
            found = timedelta(weeks=int(weeks)) if is_weeks else parse_duration(value)
        except (OverflowError, ValueError) as error:
            self.fail(f"{error}, 4w", param, ctx)
        if not found:
            self.fail(f"{value} is no time at all; say how long, such as 4w", param, ctx)
        return found


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
    found = {}
    for text in texts:
        name, _, price = text.partition("=")
        try:
            found[name] = float(price)
        except ValueError:
            found[name] = -1.0
        if name not in PRICES or not 0 <= found[name] < float("inf"):
            known = ", ".join(f"{name} ({what})" for name, what in PRICES.items())
            raise click.BadParameter(f"{text!r}: write NAME=PRICE, such as core=25, of {known}")
    return found


@click.command("size", context_settings={"show_default": True})
@click.option(
    "--messages-per-second", type=_POSITIVE, help="How many come, on average over the window."
)
@click.option("--messages-per-day", type=_POSITIVE, help="The same, by the day.")
@click.option("--ids", type=_POSITIVE, help="In place of a rate: ids in the window, such as 60e9.")
@click.option(
    "--stored",
    type=_Bytes(),
    help="In place of a rate: what all stores take together, such as 1.5T.",
)
@click.option(
    "--window", type=_Time(), default="4w", help="How long ids are remembered: 28d, 4w, 12h."
)
@click.option(
    "--duplicates",
    type=click.FloatRange(0, 1, max_open=True),
    default=_DEFAULT.duplicates,
    help="Share of the messages that repeat one.",
)
@click.option(
    "--id-bytes",
    type=click.IntRange(1, 1 << 20),
    default=_DEFAULT.id_bytes,
    help="Of an id in its message: 36 for a UUID's text. A store keeps 16 bytes of any.",
)
@click.option(
    "--value-bytes",
    type=click.IntRange(0, 1 << 30),
    default=_DEFAULT.value_bytes,
    help="Of a message's value.",
)
@click.option(
    "--headroom",
    type=click.FloatRange(min=1),
    default=_DEFAULT.headroom,
    help="What workers can do, to the average: for peaks, and to catch up.",
)
@click.option(
    "--rebuild-within",
    type=_Time(),
    default=format_duration(_DEFAULT.rebuild_within),
    help="How long a lost store may take to come back from the output topic.",
)
@click.option(
    "--partitions", type=click.IntRange(1, 10_000), help="Those of a topic that there is already."
)
@click.option("--snapshots", is_flag=True, help="With what snapshots take.")
@click.option(
    "--price",
    "prices",
    multiple=True,
    metavar="NAME=PRICE",
    callback=_prices,
    help="Of one month, in any currency; may be repeated. Names: " + ", ".join(PRICES) + ".",
)
@click.option(
    "--inverse-bloom",
    is_flag=True,
    help="Of the table of a partition, for store.type: InverseBloom: by --slots, --memory, or --messages "
    "and --retain.",
)
@click.option("--slots", type=click.IntRange(min=1), help="With --inverse-bloom: ids it holds.")
@click.option("--memory", type=_Bytes(), help="With --inverse-bloom: what it takes, such as 1Gi.")
@click.option(
    "--messages",
    type=click.IntRange(min=1),
    help="With --inverse-bloom: further messages after which to look at what is retained.",
)
@click.option(
    "--retain",
    type=click.FloatRange(0.01, 0.999),
    help="With --inverse-bloom: share of the ids to be retained after --messages.",
)
@click.option(
    "--routes",
    type=click.Choice([routes.value for routes in Routes]),
    default=Routes.NONE.value,
    callback=lambda _ctx, _param, text: Routes(text),
    help="With --inverse-bloom: what has policy: Topic, for which a slot is wider; of both: conflicts.",
)
@click.option(
    "--output",
    "form",
    type=click.Choice(["table", "json", "yaml-fragment"]),
    default="table",
    help="A table with its formulas, JSON, or the fields of a manifest.",
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
    """Say what a stream takes: partitions, cores, memory, disk, and the window's maxBytes.

    From its traffic, and from what a worker was measured to do. With --inverse-bloom, what a table of fixed size takes
    and retains.
    """
    wanted = Wanted(slots=slots, memory=memory, messages=messages, retain=retain, routes=routes)
    if inverse_bloom:
        click.echo(_shown_table(wanted, form, snapshots=snapshots))
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
        raise click.UsageError(f"Say how much comes, by one of {options}.")
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
    click.echo(_shown(traffic, prices, form))


def _shown_table(wanted: Wanted, form: str, *, snapshots: bool) -> str:
    try:
        found = table_size(wanted, snapshots=snapshots)
    except ValueError as error:
        raise click.UsageError(f"--inverse-bloom: {error}.") from error
    return shown(wanted, found, form, snapshots=snapshots)


def _shown(traffic: Traffic, prices: Mapping[str, float], form: str) -> str:
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
            }
            return json.dumps(document, indent=2)
        case "yaml-fragment":
            return as_yaml(found, traffic.window)
        case _:
            lines = rows(traffic, found, constants, prices)
            return as_text(lines, notes(traffic, found, constants))
