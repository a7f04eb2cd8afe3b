"""Random seeds, the seeds that found something, and the same history for the same seed."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.outcome import Outcome, run_seed

pytestmark = pytest.mark.usefixtures("quiet")

HERE = Path(__file__).parent
NAMED: dict[str, dict[str, Any]] = tomllib.loads((HERE / "seeds.toml").read_text())
_DIGEST = """
from tests.simulation.outcome import run_seed, silence_logs
silence_logs()
for seed in {seeds}:
    outcome = run_seed(seed)
    print(seed, outcome.digest, outcome.calls, outcome.defects)
"""


def judged(seed: int) -> Outcome:
    outcome = run_seed(seed)
    assert not outcome.defects, "\n".join(
        [*outcome.defects, f"see: python -m tests.simulation --seed {seed} --replay"]
    )
    return outcome


@pytest.mark.parametrize("seed", range(1, 31))
def test_a_random_seed(seed: int) -> None:
    judged(seed)


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_seed_that_found_something(name: str) -> None:
    judged(int(NAMED[name]["seed"]))


def test_a_seed_has_one_history_in_every_process() -> None:
    program = _DIGEST.format(seeds=[11, 20, 28, 44])
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(found) == 1
