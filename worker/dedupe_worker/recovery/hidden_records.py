"""Tell records that open transactions hide from those that are not fetched.

The readers of old outputs ask it once they have got nothing for long: up to an open transaction there is nothing to
get, and another connection would not help.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dedupe_kafka.open_transaction import open_transaction
from dedupe_worker.kafka.admin import Topics
from dedupe_worker.status import WorkerState


@dataclass(frozen=True, slots=True)
class HiddenRecords:
    """The records of a topic behind open transactions."""

    topics: Topics
    topic: str
    servers: str
    worker_state: WorkerState

    def are_all(self, positions: Mapping[int, int]) -> bool:
        """Return whether all records from these positions on are hidden; report it then.

        Raises StreamError.
        """
        topics, name = self.topics, self.topic
        stable = topics.ends(name, positions.keys())
        ends = {each: topics.high_watermark(name, each) for each in positions}
        if not all(at >= stable[each] < ends[each] for each, at in positions.items()):
            return False
        first = min(positions)
        error = open_transaction(name, first, stable[first], ends[first], self.servers)
        self.worker_state.report_waiting(error)
        return True

    def are_gone(self) -> None:
        """Report that nothing is waited for."""
        self.worker_state.clear_waiting()
