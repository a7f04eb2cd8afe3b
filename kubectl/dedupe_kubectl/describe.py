"""`kubectl dedupe describe-problem`: what is wrong with a stream, in words."""

from collections.abc import Callable, Sequence
from datetime import datetime

from dedupe_kubectl.api import Api
from dedupe_kubectl.errors import Forbidden
from dedupe_kubectl.look import look_at
from dedupe_kubectl.objects import Object, Stream
from dedupe_kubectl.problems import Facts, Problem, find


def describe(
    api: Api, namespace: str, name: str, now: datetime, say: Callable[[str], None]
) -> bool:
    """Say it line by line; True if something is wrong.

    Raises:
        PluginError: the stream can't be read.
    """
    look = look_at(api, namespace, name)
    events, events_untold = _unless_forbidden(lambda: api.warnings(namespace))
    operators, _ = _unless_forbidden(api.operator_pods)
    facts = Facts(
        look=look,
        now=now,
        events=events or (),
        operators=operators,
    )
    problems = find(facts)
    for line in lines(look.stream, problems):
        say(line)
    for line in (*look.untold, *events_untold):
        say(f"Note: {line}")
    return bool(problems)


def lines(stream: Stream, problems: Sequence[Problem]) -> list[str]:
    """Write it for people."""
    if not problems:
        return [f"{stream.title}: nothing is wrong{_aside(stream)}"]
    number = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    written = [f"{stream.title}: {number}{_aside(stream)}"]
    for place, problem in enumerate(problems, start=1):
        written += ["", f"{place}. {problem.what}", f"   why: {problem.why}"]
        written.append(f"   do:  {problem.do}")
        written += [f"   event: {line}" for line in problem.events]
    return written


def _aside(stream: Stream) -> str:
    if stream.suspended:
        return f"; it is suspended, as spec.suspend says (kubectl dedupe resume {stream.name})"
    ready = stream.condition("Ready")
    progressing = stream.condition("Progressing")
    if progressing and stream.holds("Progressing") and not (ready and stream.holds("Ready")):
        return f"; {progressing.message}"
    return ""


def _unless_forbidden(
    ask: Callable[[], list[Object]],
) -> tuple[list[Object] | None, tuple[str, ...]]:
    try:
        return ask(), ()
    except Forbidden as error:
        return None, (f"{error}",)
