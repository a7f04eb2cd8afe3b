"""Some histories, and that a seed is one history on any machine."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.operator_simulation.histories import run_seed


@pytest.mark.parametrize("seed", [445, 626, 893, 1126])
def test_a_history_that_once_was_misjudged(seed: int) -> None:
    assert run_seed(seed).defects == ()


def test_a_seed_is_one_history_whatever_the_order_of_sets() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-m", "tests.operator_simulation", "--seed", "1163"],
            cwd=Path(__file__).parents[2],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1
