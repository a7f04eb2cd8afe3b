"""Report the progress of a command on stderr, in the way that its user asked for.

    on a terminal         a bar for the present step, and lines above it
    elsewhere             a line for the present step every `PLAIN_SECONDS`, and the other lines
    --quiet               nothing but warnings
    --log-format json     an object instead of each line

The result of a command is on stdout in all cases. Commands take a `Report` by `report_options`.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Final, Self, TypeVar, cast

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from dedupe_crds.exit_status import ERROR_LOG
from dedupe_crds.formatting import duration
from dedupe_pipeline.report.json_lines import JsonLines
from dedupe_pipeline.report.stderr_lines import StderrLines, is_of_a_start

PLAIN_SECONDS: Final = 10.0

Command = TypeVar("Command", bound=Callable[..., Any])
Figures = dict[str, int | float | str | None]


@dataclass(frozen=True, kw_only=True)
class Step:
    """The present step of a job, and how far it is.

    `total` is in the same unit as `done`, None if it is not known. `details` are more for people, `figures` the same as
    numbers, for JSON.
    """

    action: str
    done: int = 0
    total: int | None = None
    details: str = ""
    figures: Figures = field(default_factory=dict)


class Report:
    """Reports progress while it is entered. Any thread may call it."""

    def __init__(
        self,
        *,
        quiet: bool = False,
        json_lines: JsonLines | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console or Console(stderr=True)
        self._quiet = quiet
        self._json = json_lines
        self._clock = clock
        self._bar = _progress(
            self._console, shown=self._console.is_terminal and not quiet and json_lines is None
        )
        self._action = "starting"
        self._task = self._bar.add_task(self._action, total=None, details="")
        self._line_at = clock() + PLAIN_SECONDS

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def step(self, step: Step) -> None:
        """Show the present step: each change of it on a bar, else now and then."""
        if step.action != self._action:
            self._action = step.action
            self._bar.remove_task(self._task)
            self._task = self._bar.add_task(step.action, total=step.total, details="")
        self._bar.update(self._task, completed=step.done, total=step.total, details=step.details)
        if self._bar.disable and (now := self._clock()) >= self._line_at:
            self._line_at = now + PLAIN_SECONDS
            self._step_line(step)

    def line(self, event: str, text: str, **figures: float | str | None) -> None:
        """Show a line; in JSON it is an `event` with these figures."""
        if not self._quiet:
            self._write("info", event, text, figures)

    def warn(self, text: str) -> None:
        """Show a warning, with --quiet too."""
        self._write("warning", text, f"warning: {text}", {})

    def result(self, text: str, **figures: float | str | None) -> None:
        """Print the result to stdout. JSON has an event `done` with the figures, too."""
        self.done(**figures)
        click.echo(text)

    def done(self, **figures: float | str | None) -> None:
        """Remove the bar, before the result is printed."""
        self._bar.stop()
        if self._json and not self._quiet:
            self._json.write("info", "done", figures)

    def _step_line(self, step: Step) -> None:
        seconds = self._bar.tasks[0].time_remaining if step.total else None
        left = None if seconds is None else round(seconds)
        shares = [f"{100 * step.done / step.total:.0f} %"] if step.total else []
        times = [] if left is None else [f"{duration(left)} left"]
        details = ", ".join([*shares, *filter(None, [step.details]), *times])
        text = f"{step.action}: {details}" if details else step.action
        figures: Figures = {"action": step.action, "done": step.done, "total": step.total}
        self.line("progress", text, **figures, **step.figures, seconds_left=left)

    def _write(self, level: str, event: str, text: str, figures: Figures) -> None:
        if self._json:
            self._json.write(level, event, figures)
        else:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def report_options(command: Command) -> Command:
    """Give a command the options --quiet and --log-format, and pass it a `report`."""

    @click.option(
        "--quiet",
        is_flag=True,
        callback=_start_quiet,
        help="Print only the result, warnings and errors.",
    )
    @click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        is_eager=True,  # before the other options, so that a wrong one is told as JSON too
        expose_value=False,
        callback=_start_json,
        help="Format of all that is on stderr; json: an object in each line.",
    )
    @wraps(command)
    def reported(*args: object, quiet: bool, **given: object) -> object:
        lines = click.get_current_context().meta.get(JsonLines.__name__)
        with Report(quiet=quiet, json_lines=lines) as report:
            return command(*args, report=report, **given)

    return cast("Command", reported)


def _start_quiet(context: click.Context, _parameter: click.Parameter, value: bool) -> bool:
    if value and JsonLines.__name__ not in context.meta and not context.resilient_parsing:
        StderrLines(lambda line: None if is_of_a_start(line) else line)
    return value


def _start_json(context: click.Context, _parameter: click.Parameter, value: str) -> None:
    if value != "json" or context.resilient_parsing:
        return
    lines = JsonLines()
    context.meta[JsonLines.__name__] = lines
    context.meta[ERROR_LOG] = partial(lines.write, "error")


def _progress(console: Console, *, shown: bool) -> Progress:
    """Return a bar that disappears at its end.

    If it is not shown, it only computes the time left.
    """
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TextColumn("{task.fields[details]}", markup=False),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        expand=True,
        redirect_stdout=False,
        redirect_stderr=False,
        disable=not shown,
        speed_estimate_period=60,
    )
