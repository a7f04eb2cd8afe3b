"""Run seeds on other copies of the packages, each request in a fork of this process.

The hunt starts it. What takes most of a process's start, the libraries, is loaded before the forks, and nothing of the
packages themselves is. A request is a line of JSON on stdin: `path`, the directories of the packages, `seeds`, the
`kind` of their schedules, and the `kinds` of defect at the first of which the fork ends. The answer is a line for each
seed before it runs, so that a hang can be told, and another after it with its defects. Then follows a line with the
`status` of `os.waitpid`.
"""

import json
import os
import signal
import sys
from importlib import import_module
from typing import Final

SEED_SECONDS: Final = 60.0
"""The most CPU time of a seed."""

_LIBRARIES: Final = (
    "confluent_kafka.admin",
    "jsonpath",
    "numpy",
    "orjson",
    "pydantic",
    "rocksdict",
    "structlog",
    "yaml",
)


def main() -> None:
    """Answer the requests on stdin."""
    for each in _LIBRARIES:
        import_module(each)
    loaded = [each for each in sys.modules if each.startswith("dedupe_")]
    assert not loaded, f"a mutant could not change {loaded}"
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _judge(**json.loads(line))
            return
        _, status = os.waitpid(child, 0)
        _print({"status": status})


def _judge(path: list[str], seeds: list[int], kinds: list[str], kind: str) -> None:
    """Run seeds up to the first defect of these kinds."""
    sys.path[:0] = path
    # Of the packages on the path of this fork.
    from tests.simulation.outcome import Kind, run_seed, silence_logs  # noqa: PLC0415

    silence_logs()
    for seed in seeds:
        _print({"seed": seed})
        signal.setitimer(signal.ITIMER_VIRTUAL, SEED_SECONDS)  # ends the process
        outcome = run_seed(seed, Kind(kind))
        _print({"seed": seed, "kinds": sorted(outcome.kinds), "defects": outcome.defects})
        if outcome.kinds.intersection(kinds):
            return


def _print(answer: dict[str, object]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
