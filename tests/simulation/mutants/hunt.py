"""Hunt one mutant: run seeds on its packages until one fails that is clean on the tree as it is."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.simulation.mutants.catalogue import (
    ROOT,
    Killing,
    Mutant,
    apply_mutant,
    copy_packages,
    python_path,
)
from tests.simulation.mutants.probe import JUDGED, STOP_AT_FIRST
from tests.simulation.schedule.generate import schedule_of
from tests.simulation.schedule.steps import Schedule

HANG: Final = "hang"
"""The kind of defect of a seed that does not end in time."""

FIRST_SEED: Final = 5_000_001
"""Random seeds are those from here on: no named seed is among them."""

_AT_ONCE: Final = 50
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 (a directory of its own is made below it)


@dataclass(frozen=True, slots=True)
class Hunt:
    """How a hunt ended. `killing` is None if the mutant survived all `seeds`."""

    mutant: str
    killing: Killing | None
    seeds: int
    seconds: float
    defect: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A seed with defects."""

    seed: int
    kinds: tuple[str, ...]
    defect: str


class MutatedTree:
    """A copy of the packages with a mutant applied; a context manager.

    Raises MutantDoesNotApply.
    """

    def __init__(self, mutant: Mutant | None) -> None:
        self._mutant = mutant
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> str:
        """Return the PYTHONPATH of the copy."""
        memory = _MEMORY if _MEMORY.is_dir() else None
        self._directory = tempfile.TemporaryDirectory(prefix="dedupe-mutant-", dir=memory)
        target = Path(self._directory.name)
        try:
            copy_packages(target)
            if self._mutant:
                apply_mutant(self._mutant, target)
        except BaseException:
            self._directory.cleanup()
            raise
        return python_path(target)

    def __exit__(self, *_: object) -> None:
        """Delete the copy."""
        if self._directory:
            self._directory.cleanup()


def hunt(mutant: Mutant, seeds: int, first: int = FIRST_SEED) -> Hunt:
    """Run seeds on a mutant until one finds it. Raises MutantDoesNotApply."""
    began, tried = time.monotonic(), 0
    with MutatedTree(mutant) as path, MutatedTree(None) as unmutated:
        while tried < seeds:
            numbers = range(first + tried, first + min(tried + _AT_ONCE, seeds))
            able = [seed for seed in numbers if can_show(mutant, schedule_of(seed))]
            failure = first_failure(path, able) if able else None
            if failure is None:
                tried += len(numbers)
                continue
            tried = failure.seed - first + 1
            if first_failure(unmutated, [failure.seed]) is None:
                killing = Killing(seed=failure.seed, kinds=sorted(failure.kinds))
                took = time.monotonic() - began
                return Hunt(mutant.name, killing, tried, took, failure.defect)
    return Hunt(mutant.name, None, tried, time.monotonic() - began)


def can_show(mutant: Mutant, schedule: Schedule) -> bool:
    """Return whether a schedule has the settings and a fault that a mutant needs."""
    settings = all(
        bool(getattr(schedule.settings, name)) is wanted for name, wanted in mutant.settings.items()
    )
    return settings and (not mutant.faults or bool({*mutant.faults} & {*schedule.faults}))


def first_failure(path: str, seeds: Sequence[int]) -> Failure | None:
    """Run seeds with a PYTHONPATH until one has a defect; return that. Raises RuntimeError if they can't run."""
    command = [sys.executable, "-m", "tests.simulation.mutants.probe", STOP_AT_FIRST]
    done = subprocess.run(
        [*command, *map(str, seeds)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout
    if done.returncode == -signal.SIGVTALRM:
        return Failure(_last_seed(output), (HANG,), "it does not end")
    if done.returncode:
        raise RuntimeError(f"the seeds can't be run: {done.stderr[-2000:]}")
    for line in output.splitlines():
        found = json.loads(line)
        if JUDGED.intersection(found.get("kinds", ())):
            return Failure(found["seed"], tuple(found["kinds"]), found["defects"][0])
    return None


def _last_seed(output: str) -> int:
    return int(json.loads(output.splitlines()[-1])["seed"])
