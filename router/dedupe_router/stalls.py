"""Notice input partitions that are no longer fetched, or have no leader.

The loop calls it every second. Neither is an error of the client: it would read the other partitions for ever, and this
one never again. Waiting partitions are not read, and an open transaction ends what can be read, so neither counts.
"""

from dataclasses import dataclass

from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import NoLeader
from dedupe_router.reader import InputReader


@dataclass(slots=True)
class StallWatch:
    """Compares how far partitions are read with their ends, if they do not move."""

    cluster: Cluster
    reader: InputReader

    def check(self) -> None:
        """Raise BrokerUnavailable for a partition of which nothing more is fetched.

        The next session has a new client. One that has no leader, or is refused, is held.
        """
        progress, positions = self.reader.progress, self.reader.positions()
        progress.follow(positions)
        if not (starved := progress.starved):
            return
        for place, end in self.cluster.readable_ends(starved).items():
            if end is None:
                self.reader.lose(place, NoLeader(f"{place[0]}/{place[1]} cannot be read now"))
            else:
                progress.check(place, max(positions[place], progress.next_offset(place)), end)
