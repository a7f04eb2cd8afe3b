"""The steady state of one output and of several."""

import numpy as np
import pytest

from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.harness.steady import steady_span


def test_one_output_is_steady_from_a_tenth_of_it_to_a_twentieth_before_its_end() -> None:
    assert steady_span([np.arange(100.0)]) == (10.0, 95.0)


def test_several_are_steady_while_each_is() -> None:
    assert steady_span([np.arange(100.0), np.arange(50.0, 150.0)]) == (60.0, 95.0)


def test_loops_that_never_ran_together_are_no_measurement() -> None:
    with pytest.raises(BenchmarkFailed, match="together"):
        steady_span([np.arange(100.0), np.arange(200.0, 300.0)])
