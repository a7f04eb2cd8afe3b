"""Hunt one mutant: run seeds on its packages until one fails that is clean on the tree as it is."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, Self

from tests.simulation.mutants.catalogue import (
    ROOT,
    Killing,
    Mutant,
    apply_mutant,
    copy_packages,
    package_paths,
)
from tests.simulation.outcome import Kind, schedule_for
from tests.simulation.schedule.steps import Schedule
from tests.support.checker.checker import Defect, Verdict

HANG: Final = "hang"
"""The kind of defect of a seed that does not end in time."""

_KINDS: Final = frozenset(each.name for each in fields(Verdict) if each.type == list[Defect])
JUDGED: Final = _KINDS | {f"routing {each}" for each in _KINDS} | {"stuck"}
"""The kinds of defect that count: not a crash, which may be one of the simulation."""

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


class Probe:
    """A process that runs seeds on copies of the packages (probe.py); a context manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.simulation.mutants.probe"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        with self._process:
            assert self._process.stdin
            self._process.stdin.close()

    def first_failure(
        self, path: Sequence[str], seeds: Sequence[int], kind: Kind
    ) -> Failure | None:
        """Run seeds until one has a defect; return that. Raises RuntimeError if they can't run."""
        process = self._process
        assert process.stdin
        assert process.stdout
        request = {"path": path, "seeds": seeds, "kinds": sorted(JUDGED), "kind": kind}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        last: dict[str, Any] = {}
        for line in process.stdout:
            found = json.loads(line)
            if "status" in found:
                return _failure(last, found["status"])
            last = found
        raise RuntimeError("the process that runs the seeds has ended")


def _failure(last: dict[str, Any], status: int) -> Failure | None:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGVTALRM:
        return Failure(last["seed"], (HANG,), "it does not end")
    if status:
        raise RuntimeError("the seeds can't be run, see above")
    if JUDGED.intersection(last.get("kinds", ())):
        return Failure(last["seed"], tuple(last["kinds"]), last["defects"][0])
    return None


class MutatedTree:
    """A copy of the packages with a mutant applied; a context manager.

    Raises MutantDoesNotApply.
    """

    def __init__(self, mutant: Mutant | None) -> None:
        self._mutant = mutant
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> list[str]:
        """Return the directories of the copy's packages."""
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
        return package_paths(target)

    def __exit__(self, *_: object) -> None:
        """Delete the copy."""
        if self._directory:
            self._directory.cleanup()


def hunt(
    mutant: Mutant, probe: Probe, seeds: int, first: int = FIRST_SEED, known: Sequence[int] = ()
) -> Hunt:
    """Run seeds on a mutant until one finds it, the `known` ones before all others. Raises MutantDoesNotApply."""
    began = time.monotonic()
    numbers = range(first, first + seeds)
    kind = mutant.kind
    able = (seed for seed in numbers if can_show(mutant, schedule_for(seed, kind)))
    queue = chain((seed for seed in known if seed in numbers), able)
    with MutatedTree(mutant) as path, MutatedTree(None) as unmutated:
        while batch := list(islice(queue, _AT_ONCE)):
            failure = probe.first_failure(path, batch, kind)
            while failure and probe.first_failure(unmutated, [failure.seed], kind):
                batch = batch[batch.index(failure.seed) + 1 :]
                failure = probe.first_failure(path, batch, kind)
            if failure:
                killing = Killing(seed=failure.seed, kinds=sorted(failure.kinds))
                took = time.monotonic() - began
                return Hunt(mutant.name, killing, failure.seed - first + 1, took, failure.defect)
    return Hunt(mutant.name, None, seeds, time.monotonic() - began)


def can_show(mutant: Mutant, schedule: Schedule) -> bool:
    """Return whether a schedule has the settings and a fault that a mutant needs."""
    settings = all(
        bool(getattr(schedule.settings, name)) is wanted for name, wanted in mutant.settings.items()
    )
    return settings and (not mutant.faults or bool({*mutant.faults} & {*schedule.faults}))
