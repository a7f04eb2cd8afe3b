"""The progress display of the demo: bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

_LINE_EVERY_SECONDS = 5.0
_NAME_WIDTH = 31
# Everything but the bar, with room for the ^C of the terminal, which would wrap the line.
_OTHER_WIDTH = 66


class Screen:
    """The steps of the demo; several may run at the same time.

    `seconds` has the durations of the steps that have ended.
    """

    def __init__(self, console: Console) -> None:
        self.seconds: dict[str, float] = {}
        self._console = console
        self._progress = Progress(
            _Mark(),
            TextColumn("{task.description}", table_column=Column(min_width=_NAME_WIDTH)),
            _Bar(bar_width=min(40, max(8, console.width - _OTHER_WIDTH))),
            TextColumn("{task.fields[figures]}", justify="right", style="dim"),
            _Seconds("", justify="right"),
            console=console,
            disable=not console.is_terminal,
        )

    @contextmanager
    def step(self, name: str, total: int | None = None) -> Iterator["Step"]:
        """Show a step while the block runs, with a bar if there is a `total` of records."""
        step = Step(self._console, self._progress, name, total)
        try:
            yield step
        except BaseException:
            step.end("failed")
            raise
        step.end("done")
        self.seconds[name] = step.seconds

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


class Step:
    """One step; `seconds` is its duration until now, or until its end."""

    def __init__(self, console: Console, progress: Progress, name: str, total: int | None) -> None:
        self._console = console
        self._progress = progress
        self._name = name
        self._total = total
        self._figures = ""
        self._began = self._printed = time.monotonic()
        self._ended: float | None = None
        self._task = progress.add_task(name, total=total, figures="", state="running", step=self)

    @property
    def seconds(self) -> float:
        """The duration of the step."""
        return (self._ended or time.monotonic()) - self._began

    def reach(self, records: int) -> None:
        """Show how many of the total are done."""
        self._figures = f"{records:,} at {records / max(self.seconds, 0.001):,.0f}/s"
        self._progress.update(self._task, completed=records, figures=self._figures)
        if not self._on_terminal and time.monotonic() - self._printed > _LINE_EVERY_SECONDS:
            self._printed = time.monotonic()
            self._print(f"{self._name} … {self._figures}")

    def show(self, figures: str) -> None:
        """Show the result of the step."""
        self._figures = figures
        self._progress.update(self._task, figures=figures)

    def end(self, state: str) -> None:
        """Stop the step's clock. `state` is done or failed."""
        self._ended = time.monotonic()
        self._progress.update(self._task, state=state)
        if not self._on_terminal:
            figures = f", {self._figures}" if self._figures else ""
            self._print(f"{self._name}: {state} in {self.seconds:.1f} s{figures}")

    @property
    def _on_terminal(self) -> bool:
        return not self._progress.disable

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class _Mark(SpinnerColumn):
    """A spinner, then a mark for the result."""

    def render(self, task: Task) -> RenderableType:
        ended = {"done": Text("✓", "green"), "failed": Text("✗", "red")}
        return ended.get(task.fields["state"]) or super().render(task)


class _Bar(BarColumn):
    """A bar if there is a total, else nothing: a pulsing bar has no information."""

    def render(self, task: Task) -> RenderableType:  # type: ignore[override] # an empty text is not a bar
        return Text() if task.total is None else super().render(task)


class _Seconds(TextColumn):
    """The step's own clock."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.fields['step'].seconds:.1f} s", justify="right")
