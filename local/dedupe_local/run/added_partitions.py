"""Notice partitions that were added to the input of a stream without routers.

The fleet's supervisor calls it: it learns of them from the workers, and asks Kafka for what they hold.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Final

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.worker import WorkerStatus
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import StreamError
from dedupe_kafka.stream_topics import StreamTopics

_LOOK_SECONDS: Final = 5.0


class AddedPartitions:
    """The partitions of the input; `lags` has what those without a worker hold."""

    def __init__(self, connect: Callable[[], Cluster], clock: Callable[[], float]) -> None:
        self._connect = connect
        self._clock = clock
        self._look_at = 0.0
        self.partitions = 0
        self.lags: Mapping[int, int] = {}

    @cached_property
    def _cluster(self) -> Cluster:
        """Return a connection of the caller's thread."""
        return self._connect()

    def look(
        self, stream: DedupeStream, statuses: Sequence[WorkerStatus | None], served: int
    ) -> StreamTopics | None:
        """Look for partitions from `served` on; return the topics if they may be served."""
        counted = [status.input.partitions or 0 for status in statuses if status]
        self.partitions = max([self.partitions, *counted])
        if self.partitions <= served:
            self.lags = {}
            return None
        if self._clock() < self._look_at:
            return None
        self._look_at = self._clock() + _LOOK_SECONDS
        with suppress(StreamError):  # the workers name it as well
            topics = None
            if stream.spec.input.accepts_added:
                topics = self._cluster.ensure_output(stream, served)
                if not any(problem.fatal for problem in topics.problems):
                    served = topics.served
            waiting = range(served, self.partitions)
            self.lags = self._cluster.unread(stream.spec.worker_input, waiting) if waiting else {}
            return topics
        return None
