"""Hold failovers back while too many nodes are out at once.

`failover` asks it before it moves a worker or detaches a volume.
"""

from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from dedupe_operator.decide import failover
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.failover import NodeCount
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.resources import NODES

# Many streams ask at once, and each list has all nodes of the cluster.
_VALID_FOR: Final = timedelta(seconds=5)


class FailoverBrake:
    """The brake of all streams; several threads may ask it.

    When too many nodes are out, most likely it is not the nodes that failed, but the way to them: their workers still
    run. `limit` is the share of nodes in percent that may be out; with 100 the brake never holds.
    """

    def __init__(self, api: KubernetesApi, limit: int) -> None:
        self._api = api
        self._limit = limit
        self._lock = Lock()
        self._counted: tuple[datetime, NodeCount] | None = None
        # When too many were out for the last time. After a restart of the process that is not known.
        self._held: datetime | None = None

    def problem(self, patience: timedelta, now: datetime) -> Problem | None:
        """Return why nothing fails over now, None if it may. Raises KubernetesError.

        Nodes come back one after another, so each gets `patience` once more after the mass outage has ended.
        """
        with self._lock:
            count = self._count(now)
            if count.is_above(self._limit):
                self._held = now
            if self._held is None or not timedelta() <= now - self._held < patience:
                return None
            return failover.held_back(count, self._limit, until=self._held + patience)

    def _count(self, now: datetime) -> NodeCount:
        if self._counted is None or not timedelta() <= now - self._counted[0] < _VALID_FOR:
            self._counted = now, failover.count_nodes(self._api.find(NODES, None))
        return self._counted[1]
