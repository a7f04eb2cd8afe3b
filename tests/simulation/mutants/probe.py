"""Run seeds in this process, and print a line of JSON for each: the seed and its kinds of defect.

The hunt starts it as a process of its own, with a mutant's packages first on PYTHONPATH. It prints the seed before it
runs it, so that a hang can be told, and ends after the first defect if so asked.
"""

import json
import signal
import sys
from dataclasses import fields
from typing import Final

from tests.simulation.outcome import run, silence_logs
from tests.simulation.schedule.generate import schedule_of
from tests.support.checker.checker import Defect, Verdict

STOP_AT_FIRST: Final = "--stop-at-first"

SEED_SECONDS: Final = 60.0
"""The most CPU time of a seed."""

JUDGED: Final = frozenset({each.name for each in fields(Verdict) if each.type == list[Defect]}) | {
    "stuck"
}
"""The kinds of defect that count: not a crash, which may be one of the simulation."""


def main(arguments: list[str]) -> None:
    """Run the seeds that are named."""
    silence_logs()
    for argument in arguments:
        if argument == STOP_AT_FIRST:
            continue
        seed = int(argument)
        print(json.dumps({"seed": seed}), flush=True)
        signal.setitimer(signal.ITIMER_VIRTUAL, SEED_SECONDS)  # ends the process
        outcome = run(schedule_of(seed))
        found = {"seed": seed, "kinds": sorted(outcome.kinds), "defects": outcome.defects}
        print(json.dumps(found), flush=True)
        if JUDGED & outcome.kinds and STOP_AT_FIRST in arguments:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
