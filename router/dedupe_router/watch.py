"""Check the topics of the stream every few seconds.

The loop calls it between two batches: which inputs exist, whether they are the same ones, and how much the
repartition topic holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from dedupe_crds.clock import Clock
from dedupe_crds.formatting import listed
from dedupe_crds.quantity import format_size
from dedupe_crds.status.router import RepartitionTopicStatus
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import StreamError
from dedupe_kafka.input_topics import matching_topics
from dedupe_router.adoption import Adoption
from dedupe_router.config import RouterConfig
from dedupe_router.errors import InputTopicReplaced, RepartitionTopicReplaced
from dedupe_router.state import RouterState

_CHECK_SECONDS: Final = 5.0
# Kafka's fields of a record, and the origin header; what compression saves is not known.
_RECORD_OVERHEAD_BYTES: Final = 60
# Room below the limit, so that a router that starts again does not pause again at once.
_AGAIN_BELOW: Final = 0.9


@dataclass(slots=True)
class StreamWatch:
    """The topics of a stream as last seen.

    `topics` are the inputs to subscribe to, former ones among them, `full` whether the repartition topic has reached
    its limit.
    """

    config: RouterConfig
    cluster: Cluster
    adoption: Adoption
    state: RouterState
    clock: Clock
    topics: Sequence[str] = ()
    full: str = ""
    _ids: dict[str, str] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _due: float = -1.0

    def check_if_due(self) -> None:
        """Check the topics, if that is due. Raises StreamError."""
        if self.clock.monotonic() >= self._due:
            self.check()

    def check(self) -> None:
        """Check the topics. Raises StreamError."""
        self._check_inputs()
        self._check_repartition()
        # At rest nothing else shows that Kafka answers again.
        self.state.clear_client_error()
        self._due = self.clock.monotonic() + _CHECK_SECONDS

    @property
    def has_routed(self) -> bool:
        """Return whether the repartition topic has or had records.

        Raises the reason why it is not known: what is there may be in a partition that cannot be read now.
        """
        if self._unknown is not None and not self._has_routed:
            raise self._unknown
        return self._has_routed

    _has_routed: bool = False
    _unknown: StreamError | None = None

    def _check_inputs(self) -> None:
        spec = self.config.stream.spec
        wanted = spec.input.names or matching_topics(self.cluster.topic_names(), spec)
        found = self.cluster.topic_ids({*wanted, *self.adoption.former})
        ids = {name: found[name] for name in wanted if name in found}
        self._seen |= set(wanted)
        missing = sorted(self._seen - ids.keys())
        self.state.warn(
            "InputTopicMissing",
            f"{', '.join(missing)}: no such topic, or missing ACL DESCRIBE; routing continues with the others"
            if missing
            else "",
        )
        self.state.warn(
            "NoInputTopic",
            ""
            if ids
            else f"no topic to read: {spec.input.shown}; routing begins once there is one",
        )
        for name, topic_id in ids.items():
            if self._ids.get(name, topic_id) != topic_id:
                raise InputTopicReplaced(
                    f"{name} was deleted and created again; it is read from its beginning"
                )
        self._ids |= ids
        self.topics = sorted(found)

    def _check_repartition(self) -> None:
        repartition, name = self.config.repartition, self.config.stream.spec.worker_input
        found = self.cluster.offsets_of(name, reads=False)
        partitions = len(found.ends) + len(found.failed)
        if partitions < self.adoption.partitions:
            raise RepartitionTopicReplaced(
                f"{name} has {partitions} partitions, and the epoch log says {self.adoption.partitions}: it was "
                "deleted and created again; add the missing partitions"
            )
        why = [found.failed[number] for number in sorted(found.failed)]
        self.state.warn("NoLeader", listed([str(each) for each in why]))
        self._has_routed = any(found.ends.values())
        self._unknown = next(iter(why), None)
        held = sum(end - found.lows[partition] for partition, end in found.ends.items())
        tally = self.state.tally
        mean = tally.bytes / tally.routed + _RECORD_OVERHEAD_BYTES if tally.routed else 0.0
        held_bytes = int(held * mean)
        self.state.output = RepartitionTopicStatus(
            topic=name,
            partitions=partitions,
            held_records=held,
            held_bytes=held_bytes if tally.routed else None,
        )
        limit = repartition.topic.max_bytes
        if held_bytes >= limit or (self.full and held_bytes >= _AGAIN_BELOW * limit):
            self.full = (
                f"{name} holds about {format_size(held_bytes)} that no worker has read, and "
                f"spec.repartition.topic.maxBytes is {format_size(limit)}: routing continues when the workers have "
                "read it; see why they are slower, or raise the limit"
            )
        else:
            self.full = ""
