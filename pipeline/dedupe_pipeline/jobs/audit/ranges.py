"""Choose the offsets of a stream's topics that an audit reads and judges.

The job `audit` calls it. Invariant: the topics are queried in the order that a running stream requires. First how far
the inputs are processed, then the output once it contains all of that (a commit reaches a group's offsets and a topic's
partitions one after the other), and last the inputs, so that they contain every record from which the output was made.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from dedupe_crds.deadline import Deadline
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.spec.topics import Mode
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.input_topics import matching_topics
from dedupe_kafka.offsets import TopicOffsets
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import NothingCommitted, PipelineError, RequestRefused
from dedupe_pipeline.jobs.audit.bounds import Bounds
from dedupe_pipeline.jobs.audit.unread import unread

_POLL_SECONDS = 0.5
_ALL = Bounds()
_PROCESSED_WITHIN = timedelta(seconds=90)  # as long as `Cluster.settled_offsets` waits


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """The offsets to read of each topic.

    `late` is None without a topic for late messages. `judged_before` is for each input topic and partition the offset
    from which a record may not have been processed, 0 where nothing is known to be.
    """

    raw: Sequence[TopicOffsets]
    clean: TopicOffsets
    late: TopicOffsets | None
    judged_before: Mapping[tuple[str, int], int]

    @property
    def topics(self) -> list[TopicOffsets]:
        """Return all that is read."""
        return [*self.raw, self.clean, *([self.late] if self.late else [])]


def ranges_to_audit(
    connection: KafkaConnection,
    stream: DedupeStream,
    *,
    up_to_committed: bool,
    bounds: Bounds = _ALL,
    within: timedelta = _PROCESSED_WITHIN,
) -> Ranges:
    """Return what to read.

    With `up_to_committed` and a repartition this waits up to `within` until the workers have committed what the routers
    had committed when it began.

    Raises:
        TopicMissing: a topic is absent.
        OpenTransaction: a transaction of the output does not end.
        NothingCommitted: the consumer group has committed nothing of an input that has records.
        PipelineError: no topic matches spec.input.pattern, or the workers lag behind the routers.
    """
    spec, cluster = stream.spec, connection.cluster()
    judged_before = dict(_judged_before(cluster, stream, up_to_committed))
    if up_to_committed and spec.repartition is not None:
        _wait_for_workers(connection, cluster, stream, within)
    clean = cluster.settled_offsets(spec.output.topic)
    # A stream that only observes routes nothing.
    routes_late = spec.late.topic is not None and spec.mode is Mode.ENFORCE
    late = cluster.settled_offsets(spec.late.topic) if spec.late.topic and routes_late else None
    raw = [cluster.offsets(name) for name in _input_topics(cluster, stream)]
    if up_to_committed:
        _check_committed(stream, raw, judged_before)
    judged_before = bounds.last_offsets(raw, judged_before)
    raw = bounds.first_offsets(connection, raw)
    return Ranges(raw=raw, clean=clean, late=late, judged_before=judged_before)


def _input_topics(cluster: Cluster, stream: DedupeStream) -> list[str]:
    spec = stream.spec
    found = matching_topics(cluster.topic_names() if spec.input.pattern else (), spec)
    if not found:
        raise RequestRefused(
            f"no topic of the cluster matches spec.input.pattern {spec.input.pattern!r}: correct it, or create a topic"
        )
    return found


def unjudged(ranges: Ranges) -> list[tuple[str, int]]:
    """Return the input partitions with records of which none is known to be processed."""
    return [
        (each.topic, partition)
        for each in ranges.raw
        for partition, end in each.ends.items()
        if each.lows[partition] < end and not ranges.judged_before.get((each.topic, partition))
    ]


def _check_committed(
    stream: DedupeStream,
    raw: Sequence[TopicOffsets],
    judged_before: Mapping[tuple[str, int], int],
) -> None:
    """Refuse a consumer group without offsets: everything would be pending."""
    if any(judged_before.values()) or not any(each.lows != each.ends for each in raw):
        return
    namespace = stream.metadata.namespace
    raise NothingCommitted(
        f"consumer group {_group(stream)} has committed no offset of {stream.spec.input.shown}, so it is not known "
        f"what the stream has processed. The group is named after the stream's namespace, here {namespace!r}: if the "
        "stream was created in another one (kubectl apply -n), give that with --namespace. If it has just started, "
        "try again when it has processed something. A group that is at rest for seven days loses its offsets; then "
        "stop the producers, wait until all is processed, and audit without --up-to-committed"
    )


def _group(stream: DedupeStream) -> str:
    return stream.consumer_group if stream.spec.repartition is None else stream.router_group


def _judged_before(
    cluster: Cluster, stream: DedupeStream, up_to_committed: bool
) -> Iterator[tuple[tuple[str, int], int]]:
    for name in _input_topics(cluster, stream):
        found = (
            cluster.committed(_group(stream), name)
            if up_to_committed
            else cluster.offsets(name).ends
        )
        for partition, offset in found.items():
            yield (name, partition), offset


def _wait_for_workers(
    connection: KafkaConnection, cluster: Cluster, stream: DedupeStream, within: timedelta
) -> None:
    """Wait until the workers have committed what the repartition topic contains."""
    topic, group = stream.spec.worker_input, stream.consumer_group
    ends = cluster.settled_offsets(topic).ends

    lag: dict[int, int] = {}

    def processed() -> bool:
        lag.clear()
        committed = cluster.committed(group, topic)
        lag.update(unread(connection, group, topic, committed=committed, ends=ends))
        return not lag

    if Deadline(within.total_seconds()).wait_for(processed, poll_seconds=_POLL_SECONDS):
        return
    shown = [f"partition {number}: {offsets:,}" for number, offsets in sorted(lag.items())[:5]]
    raise PipelineError(
        f"the workers (group {group}) lag behind the routers: {sum(lag.values()):,} offsets of {topic} are not "
        f"processed after {within.total_seconds():.0f} s ({', '.join(shown)}{', …' if len(lag) > 5 else ''}). Wait "
        "until the workers have caught up, then run this again"
    )
