"""`kubectl dedupe describe-problem`: fetch, diagnose, print each problem."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import click

from dedupe_kubectl.api import Api
from dedupe_kubectl.diagnosis import Facts, Problem, find
from dedupe_kubectl.errors import Forbidden
from dedupe_kubectl.growth_lines import growth_line
from dedupe_kubectl.objects import Object, Stream
from dedupe_kubectl.options import STREAM, on_cluster
from dedupe_kubectl.stream_view import fetch_view


@click.command("describe-problem")
@STREAM
@on_cluster
def describe_problem_command(*, api: Api, namespace: str, stream: str) -> None:
    """Show what is wrong with a stream, why, and what to do.

    The exit code is 0 if nothing is wrong, else 1.
    """
    if describe(api, namespace, stream, datetime.now(UTC), click.echo):
        raise click.exceptions.Exit(1)


def describe(
    api: Api, namespace: str, name: str, now: datetime, print_line: Callable[[str], None]
) -> bool:
    """Print the problems of a stream; return whether there are any.

    Raises:
        PluginError: the stream cannot be read.
    """
    view = fetch_view(api, namespace, name)
    unavailable = list(view.unavailable)
    events: list[Object] = []
    operators: list[Object] | None = None
    try:
        events = api.warnings(namespace)
    except Forbidden as error:
        unavailable.append(str(error))
    with suppress(Forbidden):  # reported only if the diagnosis needs them
        operators = api.operator_pods()
    problems = find(Facts(view=view, now=now, events=events, operators=operators))
    for line in (*lines(view.stream, problems), *(f"Note: {line}" for line in unavailable)):
        print_line(line)
    return bool(problems)


def lines(stream: Stream, problems: Sequence[Problem]) -> list[str]:
    """Return the lines that describe the problems."""
    if not problems:
        return [f"{stream.title}: nothing is wrong{_aside(stream)}"]
    number = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    written = [f"{stream.title}: {number}{_aside(stream)}"]
    for place, problem in enumerate(problems, start=1):
        written += ["", f"{place}. {problem.what}", f"   why: {problem.why}"]
        written += [f"   do:  {problem.do}"] if problem.do else []
        written += [f"   event: {line}" for line in problem.events]
    return written


def _aside(stream: Stream) -> str:
    if stream.suspended:
        return f"; it is suspended by spec.suspend (kubectl dedupe resume {stream.name})"
    if line := growth_line(stream):
        return f"; {line}"
    progressing = stream.condition("Progressing", "True")
    return (
        f"; {progressing.message}" if progressing and not stream.condition("Ready", "True") else ""
    )
