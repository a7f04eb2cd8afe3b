"""The demo from start to end, in a given working directory."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.cluster import Cluster
from dedupe_local.run.fleet import Fleet
from dedupe_local.run.stream_changes import with_bootstrap_servers
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_local.state_dir import StateDir
from dedupe_pipeline.jobs.audit import AuditResult, audit
from dedupe_pipeline.jobs.land.job import land
from dedupe_pipeline.session import spark_session
from examples.flights import skipping
from examples.flights.counting import Counter, database
from examples.flights.data import Message, messages
from examples.flights.deduplication import Deduplicator
from examples.flights.outcome import Answer, Counting, Explained, Outcome, Skipping
from examples.flights.owners import explained
from examples.flights.producer import Send, plan, scatter
from examples.flights.question import SCHEMA, answer_from_parquet, answer_from_raw
from examples.flights.screen import Screen
from examples.flights.skipping import Comparison

MANIFEST = Path(__file__).with_name("stream.yaml")
SCATTERED_MANIFEST = Path(__file__).with_name("scattered.yaml")
ROUTED_MANIFEST = Path(__file__).with_name("routed.yaml")

_READY_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class Options:
    """The user's options.

    `repeats` is the expected number of duplicates of each message. With `scattered` they are sent without keys, to
    any partition, and with `repartition` routers bring them together. With a `carrier`, its flights are also read with
    chunk filters. With `counts`, the job aggregate is run on the PostgreSQL at `postgres_url`, or on one that the demo
    starts.
    """

    rows: int
    partitions: int
    repeats: float
    seed: int
    scattered: bool = False
    repartition: bool = False
    carrier: str | None = None
    counts: bool = False
    postgres_url: str | None = None

    @property
    def manifest(self) -> Path:
        """The manifest of the stream."""
        if self.scattered:
            return ROUTED_MANIFEST if self.repartition else SCATTERED_MANIFEST
        return skipping.MANIFEST if self.carrier else MANIFEST


@dataclass(frozen=True, kw_only=True)
class _Found:
    landed_records: int
    audit: AuditResult
    clean_answer: Answer
    raw_answer: Answer
    explained: Explained
    skipping: Skipping | None
    counting: Counting | None


def run(options: Options, directory: Path, screen: Screen) -> Outcome:
    """Run the demo.

    Raises:
        LocalError, PipelineError, StreamError, FlightsMissing, NotSent, NotRecovered, NotCounted: the message
            has what happened and what to do.
    """
    began = time.monotonic()
    with ExitStack() as running:
        counts = database(options.postgres_url) if options.counts else nullcontext()
        url = running.enter_context(counts)
        state = running.enter_context(StateDir(directory / "state"))
        helper = running.enter_context(ThreadPoolExecutor(thread_name_prefix="demo"))
        reading = helper.submit(_read_flights, options, screen)
        if options.carrier:
            reading.result()  # before anything starts, as there may be no such carrier
        broker = EmbeddedBroker(state.broker)
        with screen.step("Start Kafka"):
            running.enter_context(broker)
        stream = _with_partitions(load_manifest(options.manifest), options.partitions)
        stream = with_bootstrap_servers(stream, broker.bootstrap_servers)
        Cluster(broker.bootstrap_servers).ensure_input(stream.spec.input.single, options.partitions)
        with Fleet(stream, state) as fleet:
            with screen.step(f"Start {options.partitions} workers"):
                fleet.wait_ready(_READY_SECONDS)
            flights, sends = reading.result()
            done = Deduplicator(fleet, state, helper, screen).run(flights, sends)
        counter = None
        if url is not None:
            counter = Counter(url, state.manifest, directory / "aggregate")
            with screen.step("Count in PostgreSQL, then kill") as step:
                counter.count_and_be_killed(len(flights), step)
        # Only the helper thread uses Spark: Ctrl-C while Spark starts would leave its Java process
        # running, and Ctrl-C during a call would break the connection to it.
        starting = helper.submit(_start_spark, directory, screen)
        running.callback(lambda: starting.result().stop())
        analyst = _Analyst(starting.result(), stream, flights, screen)
        reader = (broker, options.carrier) if options.carrier else None
        found = helper.submit(analyst.run, directory, reader, counter).result()
        return Outcome(
            partitions=options.partitions,
            scattered=options.scattered,
            routed=options.repartition,
            seed=options.seed,
            sent=done.sent,
            deduplicated=done.deduplicated,
            recovery=done.recovery,
            timeline=done.timeline,
            landed_records=found.landed_records,
            audit=found.audit,
            clean_answer=found.clean_answer,
            raw_answer=found.raw_answer,
            explained=found.explained,
            skipping=found.skipping,
            counting=found.counting,
            step_seconds=screen.seconds,
            seconds=time.monotonic() - began,
        )


def _with_partitions(stream: DedupeStream, partitions: int) -> DedupeStream:
    """Return the stream with so many workers, if routers decide on that."""
    if stream.spec.repartition is None:
        return stream
    stage = stream.spec.repartition.model_copy(update={"partitions": partitions})
    return stream.model_copy(update={"spec": stream.spec.model_copy(update={"repartition": stage})})


def _read_flights(options: Options, screen: Screen) -> tuple[list[Message], list[Send]]:
    with screen.step("Read the flights") as step:
        flights = list(messages(options.rows, options.seed))
        step.show(f"{len(flights):,}")
        if options.carrier:
            flights = skipping.by_month_and_carrier(flights, options.carrier)
        sends = plan(len(flights), options.repeats, options.seed)
        if options.scattered:
            sends = scatter(sends, options.partitions, options.seed)
        return flights, sends


class _Analyst:
    """Everything that the demo does with Spark."""

    def __init__(
        self, spark: SparkSession, stream: DedupeStream, flights: list[Message], screen: Screen
    ) -> None:
        self._spark = spark
        self._stream = stream
        self._flights = flights
        self._screen = screen

    def run(
        self, directory: Path, reader: tuple[EmbeddedBroker, str] | None, counter: Counter | None
    ) -> _Found:
        """Land, audit and query the topics; then use `reader` and `counter`, if given."""
        landed = directory / "flights.parquet"
        with self._screen.step("Land the clean topic as Parquet") as step:
            records = land(self._spark, self._stream, landed, json_schema=SCHEMA).records
            step.show(f"{records:,} records")
        with self._screen.step("Audit it against the raw topic") as step:
            audited = audit(self._spark, self._stream)
            step.show(f"{audited.total.defects:,} defects")
        with self._screen.step("Query both topics"):
            clean_answer = answer_from_parquet(self._spark, landed)
            raw_answer = answer_from_raw(self._spark, self._stream)
        with self._screen.step("Check the duplicates' originals") as step:
            duplicates = explained(self._spark, self._stream)
            step.show(f"{duplicates.records:,} of {audited.total.removed:,}")
        return _Found(
            landed_records=records,
            audit=audited,
            clean_answer=clean_answer,
            raw_answer=raw_answer,
            explained=duplicates,
            skipping=self._skip(*reader) if reader else None,
            counting=self._count(counter) if counter else None,
        )

    def _skip(self, broker: EmbeddedBroker, carrier: str) -> Skipping:
        with self._screen.step(f"Read flights of {carrier} in four ways") as step:
            comparison = Comparison(self._spark, self._stream, broker, carrier, self._flights)
            found = comparison.run()
            step.show(f"{found.flights:,}")
            return found

    def _count(self, counter: Counter) -> Counting:
        with self._screen.step("Count the rest in PostgreSQL") as step:
            found = counter.count_the_rest(self._spark, self._stream, self._flights)
            step.show(f"{found.records - found.killed_at:,} of {found.records:,}")
            return found


def _start_spark(directory: Path, screen: Screen) -> SparkSession:
    """Start Spark, with the output of its Java process in a file.

    Its errors reach Python as exceptions too.
    """
    shown = os.dup(2)
    with screen.step("Start Spark"), (directory / "spark.log").open("wb") as log:
        os.dup2(log.fileno(), 2)
        try:
            return spark_session("demo", properties={"spark.local.dir": str(directory / "spark")})
        finally:
            os.dup2(shown, 2)
            os.close(shown)
