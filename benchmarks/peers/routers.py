"""CPU time of our routers, for each of the messages that they have routed.

Routers run ahead of the workers. While the output is in its steady state they route more messages than come out, or
have routed all. So their CPU time is measured in their own steady state, and counts for each message of the workers.
"""

import time
from collections.abc import Sequence
from typing import Final

import numpy as np

from benchmarks.harness.measure import cpu_seconds_of
from benchmarks.harness.processes import BenchmarkFailed
from benchmarks.harness.sampler import Sampler
from benchmarks.peers.output import Topic

_SAMPLE_SECONDS: Final = 0.1
_STEADY: Final = (0.10, 0.95)


class RouterMeter(Sampler):
    """CPU seconds of routers and the offsets of their topic, over time.

    Valid after the context, which must end before the processes do.
    """

    def __init__(self, pids: Sequence[int], topic: Topic) -> None:
        super().__init__("router meter", interval_seconds=_SAMPLE_SECONDS)
        self._pids, self._topic = pids, topic
        self._times: list[float] = []
        self._written: list[int] = []
        self._cpu_seconds: list[float] = []

    @property
    def cpu_seconds_per_message(self) -> float:
        """CPU seconds for a message, in the routers' steady state. Raises BenchmarkFailed."""
        first, last = (round(share * (self._written or [0])[-1]) for share in _STEADY)
        steady = [at for at, written in enumerate(self._written) if first <= written <= last]
        if len(steady) < len(_STEADY) or self._written[steady[0]] == self._written[steady[-1]]:
            raise BenchmarkFailed("the routers were too fast to be sampled: use more --messages")
        cpu, written = (
            values[steady[-1]] - values[steady[0]] for values in (self._cpu_seconds, self._written)
        )
        return cpu / written

    def used(self, start: float, end: float) -> float:
        """CPU seconds between two times (seconds since 1970)."""
        at = np.interp([start, end], self._times, self._cpu_seconds)
        return float(at[1] - at[0])

    def _sample(self) -> bool:
        if not self._pids:
            return False
        self._written.append(self._topic.written())
        self._times.append(time.time())
        self._cpu_seconds.append(sum(map(cpu_seconds_of, self._pids)))
        return True
