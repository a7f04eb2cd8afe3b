"""The cluster of a local run, in which the input topic may be created as well."""

from dedupe_kafka import cluster
from dedupe_kafka.errors import TopicUnusable

_PARTITIONS = 4


class Cluster(cluster.Cluster):
    """A cluster that is this user's own, such as the embedded broker."""

    def ensure_input(self, name: str, partitions: int | None) -> None:
        """Create an input topic if it is absent (4 partitions if not told otherwise).

        Raises:
            TopicUnusable: it is there, with another number of partitions than asked for.
        """
        found = self.topic(name)
        if found is None:
            self.create(name, partitions or _PARTITIONS, 1, {})
            self.wait_for(name)
        elif partitions not in (None, found.partitions):
            raise TopicUnusable(
                f"Input topic {name} has {found.partitions} partitions already, and --partitions "
                f"says {partitions}: leave it out, or remove the state directory to begin anew."
            )
