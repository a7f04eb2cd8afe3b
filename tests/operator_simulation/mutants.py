"""The mutants: rules of the operator, each broken by an edit, and the seed that finds it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
MUTANTS: Final = Path(__file__).with_name("mutants.toml")
_RUN: Final = """\
import json, sys
from tests.operator_simulation.histories import run_seed
from tests.operator_simulation.world import silence_logs
silence_logs()
for seed in json.loads(sys.argv[1]):
    outcome = run_seed(seed)
    if outcome.defects:
        print(json.dumps([seed, outcome.defects]))
        break
"""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken rule. `kind` is the kind of defect by which its seed finds it."""

    name: str
    breaks: str
    seed: int
    kind: str
    file: str
    old: str
    new: str


def load_mutants() -> list[Mutant]:
    """Return all mutants."""
    return [Mutant(**each) for each in tomllib.loads(MUTANTS.read_text())["mutant"]]


def first_failure(mutant: Mutant | None, seeds: Sequence[int]) -> tuple[int, list[str]] | None:
    """Run seeds on a copy of the operator; return the first with defects, and these."""
    with tempfile.TemporaryDirectory(prefix="dedupe-mutant-") as directory:
        copy = Path(directory) / "operator"
        shutil.copytree(ROOT / "operator", copy, ignore=shutil.ignore_patterns("__pycache__"))
        if mutant is not None:
            path = Path(directory) / mutant.file
            text = path.read_text()
            assert text.count(mutant.old) == 1, f"{mutant.name}: adapt `old` to {mutant.file}"
            path.write_text(text.replace(mutant.old, mutant.new))
        done = subprocess.run(
            [sys.executable, "-c", _RUN, json.dumps(list(seeds))],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{ROOT}"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    if not done.stdout:
        return None
    seed, defects = json.loads(done.stdout)
    return seed, defects
