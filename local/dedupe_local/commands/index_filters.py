"""`dedupe index-filters`: the filters that an output topic lacks, so that readers can skip in it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from dedupe_crds.spec.stream import DedupeStream
from dedupe_filters.backfill import OnProgress, index_topic
from dedupe_filters.values import FilterSource
from dedupe_kafka.client import read_properties
from dedupe_kafka.cluster import Cluster
from dedupe_kafka.errors import TopicMissing, TopicUnusable
from dedupe_kafka.side_topics import check_notes, filters_topic, notes_config
from dedupe_local.errors import Refused
from dedupe_local.run.bar import progress_bar
from dedupe_local.run.preflight import embedded_port, refuse_unsupported
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_local.state_dir import StateDir


@dataclass(frozen=True, kw_only=True)
class IndexOptions:
    """Where the stream runs: as for `RunOptions`."""

    bootstrap_servers: str | None = None
    state_dir: Path | None = None
    kafka_properties: Path | None = None


def index_filters(stream: DedupeStream, options: IndexOptions, console: Console) -> None:
    """Write the filters that the stream's output topic lacks, and say what was done.

    Raises:
        LocalError, StreamError: with what happened and what to do.
    """
    refuse_unsupported(
        stream,
        has_properties=options.kafka_properties is not None,
        embedded=options.bootstrap_servers is None,
    )
    wanted = stream.spec.output.filter
    if wanted is None:
        raise Refused(
            "The manifest has no spec.output.filter, which says where the values are that readers select by: add it."
        )
    source = FilterSource.of(wanted)
    topic = stream.spec.output.topic
    properties = read_properties(options.kafka_properties)
    with ExitStack() as running:
        servers = options.bootstrap_servers
        if servers is None:
            path = options.state_dir or StateDir.default_path(stream)
            state = running.enter_context(StateDir(path))
            port = embedded_port(stream.spec.kafka.bootstrap_servers)
            servers = running.enter_context(EmbeddedBroker(state.broker, port)).bootstrap_servers
        ensure_filters(Cluster(servers, properties), topic)
        on_progress = running.enter_context(_bar(console, f"{topic} by {source}"))
        done = index_topic(
            servers,
            topic,
            source,
            wanted.size_bytes,
            properties=properties,
            on_progress=on_progress,
        )
    line = (
        f"Wrote {done.filters:,} filters of {done.records:,} records to {filters_topic(topic)}."
        if done.filters
        else f"All of {topic} has filters already."
    )
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def ensure_filters(cluster: Cluster, output_name: str) -> None:
    """Create the filters topic of an output topic if it is absent.

    Raises:
        TopicMissing: the output topic is absent.
        TopicUnusable: the filters topic is there and will not do.
    """
    output = cluster.topic(output_name)
    if output is None:
        raise TopicMissing(
            f"Output topic {output_name} does not exist: there is nothing to index; correct spec.output.topic."
        )
    name = filters_topic(output_name)
    filters = cluster.topic(name)
    if filters is None:
        cluster.create(name, output.partitions, output.replication_factor, notes_config(output))
        filters = cluster.wait_for(name)
    problems = check_notes(output, filters)
    if fatal := [problem.message for problem in problems if problem.fatal]:
        raise TopicUnusable("\n".join(fatal))


@contextmanager
def _bar(console: Console, title: str) -> Iterator[OnProgress]:
    """A progress bar, on a terminal only."""
    with progress_bar(console) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
