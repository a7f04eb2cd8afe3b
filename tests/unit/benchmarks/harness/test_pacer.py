"""When a paced message is due."""

import numpy as np

from tests.unit.benchmarks.runs import latency_run


def test_messages_are_due_at_equal_distances_from_the_start() -> None:
    pace = latency_run(None, 1_000, 0.0).pace.model_copy(update={"start_ns": 7})
    assert pace.due_ns(np.array([0, 1, 2_000])).tolist() == [7, 1_000_007, 2_000_000_007]
