"""Options of command lines: -h and --version, and the types of a manifest's texts."""

from datetime import timedelta

import click

from dedupe_crds.bootstrap_servers import check_bootstrap_servers
from dedupe_crds.quantity import format_duration, parse_duration


class DurationType(click.ParamType[timedelta]):
    """A duration such as 30s, 1h30m or 4w.

    With `positive` it is longer than zero. `most` is its upper bound.
    """

    name = "duration"

    def __init__(self, *, positive: bool = False, most: timedelta | None = None) -> None:
        self._positive = positive
        self._most = most

    def convert(
        self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Read the text of an option."""
        try:
            found = parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if self._positive and not found:
            self.fail(f"{value} must be longer than zero; write a duration such as 4w", param, ctx)
        if self._most is not None and found > self._most:
            self.fail(f"{value} is too long; at most {format_duration(self._most)}", param, ctx)
        return found


class BootstrapServersType(click.ParamType[str]):
    """Kafka brokers such as kafka:9092 or [::1]:9092, separated by commas."""

    name = "host:port"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the text of an option."""
        try:
            return check_bootstrap_servers(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def add_help_and_version(command: click.Command) -> None:
    """Give a command, and each below it, the options -h and --version."""
    command.context_settings["help_option_names"] = ["-h", "--help"]
    # Not from the environment: a variable such as DEDUPE_WORKER_VERSION would end a worker at its start.
    click.version_option(package_name="dedupestream", allow_from_autoenv=False)(command)
    if isinstance(command, click.Group):
        for each in command.commands.values():
            add_help_and_version(each)
