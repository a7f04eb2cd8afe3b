"""`dedupe index-filters`: write the filters that an output topic lacks.

The work is `dedupe_filters.backfill`. With filters, readers can skip parts of the topic.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.stop_signals import StopSignals
from dedupe_filters.backfill import backfill_topic
from dedupe_filters.values import FilterSource
from dedupe_kafka.client import read_properties
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import TopicMissing, TopicUnusable
from dedupe_kafka.side_topics import check_metadata, filters_topic, metadata_config
from dedupe_local.errors import Refused
from dedupe_local.servers.connect import KafkaOptions, connected
from dedupe_local.state_dir import StateDir
from dedupe_pipeline.report.report import Report, Step


def index_filters(stream: DedupeStream, options: KafkaOptions, report: Report) -> None:
    """Write the filters that the stream's output topic lacks, and print a summary.

    Raises:
        StreamError: the message names the cause, the place and the remedy.
        Interrupted: a signal came before all filters were written.
    """
    options.check(stream)
    wanted = stream.spec.output.filter
    if wanted is None:
        raise Refused(
            "The manifest has no spec.output.filter: add it, with the place of the values that readers select by."
        )
    source = FilterSource.of(wanted)
    topic = stream.spec.output.topic
    properties = read_properties(options.kafka_properties)
    progress = _Progress(topic, source, report)
    with StopSignals() as signals, ExitStack() as running, signals.interrupting(progress.describe):
        servers = running.enter_context(_servers(stream, options))
        ensure_filters(Cluster(servers, properties), topic)
        done = backfill_topic(
            servers,
            topic,
            source,
            wanted.size_bytes,
            properties=properties,
            on_progress=progress,
        )
    line = (
        f"Wrote {done.filters:,} filters of {done.records:,} records to {filters_topic(topic)}."
        if done.filters
        else f"All records of {topic} already have filters."
    )
    report.result(line, filters=done.filters, records=done.records)


@contextmanager
def _servers(stream: DedupeStream, options: KafkaOptions) -> Iterator[str]:
    """Yield the brokers.

    Only an embedded one locks the state directory: else a run may use it.
    """
    with ExitStack() as running:
        state = StateDir(options.state_dir or StateDir.default_path(stream))
        if options.embedded:
            running.enter_context(state)
        kafka = running.enter_context(connected(stream, options, state))
        yield kafka.stream.spec.kafka.bootstrap_servers


def ensure_filters(cluster: Cluster, output_name: str) -> None:
    """Create the filters topic of an output topic if it is absent.

    Raises:
        TopicMissing: the output topic is absent.
        TopicUnusable: the filters topic exists and has unsuitable settings.
    """
    output = cluster.topic(output_name)
    if output is None:
        raise TopicMissing(
            f"Output topic {output_name} does not exist, so there is nothing to index: correct spec.output.topic."
        )
    name = filters_topic(output_name)
    filters = cluster.topic(name)
    if filters is None:
        cluster.create(name, output.partitions, output.replication_factor, metadata_config(output))
        filters = cluster.wait_for(name)
    problems = check_metadata(output, filters)
    if fatal := [problem.message for problem in problems if problem.fatal]:
        raise TopicUnusable("\n".join(fatal))


class _Progress:
    """Notes how far the work is, and reports it."""

    def __init__(self, topic: str, source: FilterSource, report: Report) -> None:
        self._topic = topic
        self._action = f"{topic} by {source}"
        self._report = report
        self._done = self._total = 0

    def __call__(self, done: int, total: int) -> None:
        """Note that `done` of `total` offsets are done."""
        self._done, self._total = done, total
        details = f"{done:,} of {total:,} offsets"
        self._report.step(Step(action=self._action, done=done, total=total, details=details))

    def describe(self) -> str:
        """Return how far the work is when a signal ends it."""
        return (
            f"after {self._done:,} of {self._total:,} offsets of {self._topic} without filters; the filters that were "
            "written stay: the same command continues after them"
        )
