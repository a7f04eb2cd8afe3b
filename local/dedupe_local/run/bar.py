"""The progress bar of commands that do one thing after another."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn


def progress_bar(console: Console) -> Progress:
    """What is done, how far, and for how long still; on a terminal only, and gone in the end."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
