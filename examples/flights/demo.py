"""The demo from its start to its end, in a working directory that is given."""

import os
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from dedupe_crds.manifest import load_manifest
from dedupe_crds.stream import DedupeStream
from dedupe_local.broker import EmbeddedBroker
from dedupe_local.cluster import Cluster
from dedupe_local.fleet import Fleet, with_bootstrap_servers
from dedupe_local.state import StateDir
from dedupe_pipeline.audit import AuditResult, audit
from dedupe_pipeline.land import land
from dedupe_pipeline.session import spark_session
from examples.flights.data import Message, messages
from examples.flights.outcome import Answer, Deduplicated, Outcome, Recovery, Sent
from examples.flights.producer import FlakyProducer, Kind, Send, plan
from examples.flights.question import SCHEMA, answer_from_parquet, answer_from_raw
from examples.flights.recovery import kill_and_follow
from examples.flights.screen import Screen, Step

MANIFEST = Path(__file__).with_name("stream.yaml")

_READY_SECONDS = 120.0
_STALL_SECONDS = 120.0
_TICK_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user chose. `repeats` is the expected number of them for each message."""

    rows: int
    partitions: int
    repeats: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class _SparkFound:
    landed_records: int
    audit: AuditResult
    clean_answer: Answer
    raw_answer: Answer


def run(options: Options, directory: Path, screen: Screen) -> Outcome:
    """Run the demo.

    Raises:
        LocalError, PipelineError, StreamError, FlightsMissing, NotSent, NotRecovered: with what
            happened and what to do.
    """
    began = time.monotonic()
    with ExitStack() as running:
        state = running.enter_context(StateDir(directory / "state"))
        helper = running.enter_context(ThreadPoolExecutor(thread_name_prefix="demo"))
        reading = helper.submit(_read_flights, options, screen)
        broker = EmbeddedBroker(state.broker)
        with screen.step("Start Kafka"):
            running.enter_context(broker)
        stream = with_bootstrap_servers(load_manifest(MANIFEST), broker.bootstrap_servers)
        Cluster(broker.bootstrap_servers).ensure_input(stream.spec.input.topic, options.partitions)
        with Fleet(stream, state) as fleet:
            with screen.step(f"Start {options.partitions} workers"):
                fleet.wait_ready(_READY_SECONDS)
            sent, done, recovery = _Deduplication(fleet, state, helper, screen).run(
                *reading.result()
            )
        # Spark is used by the helper alone: a Ctrl-C in the midst of starting it would leave its
        # Java process behind, and one in the midst of a call to it breaks the connection.
        starting = helper.submit(_start_spark, directory, screen)
        running.callback(lambda: starting.result().stop())
        found = helper.submit(
            _read_with_spark, starting.result(), stream, directory, screen
        ).result()
        return Outcome(
            partitions=options.partitions,
            seed=options.seed,
            sent=sent,
            deduplicated=done,
            recovery=recovery,
            landed_records=found.landed_records,
            audit=found.audit,
            clean_answer=found.clean_answer,
            raw_answer=found.raw_answer,
            step_seconds=screen.seconds,
            seconds=time.monotonic() - began,
        )


def _read_flights(options: Options, screen: Screen) -> tuple[list[Message], list[Send]]:
    with screen.step("Read the flights") as step:
        flights = list(messages(options.rows, options.seed))
        step.show(f"{len(flights):,}")
        return flights, plan(len(flights), options.repeats, options.seed)


class _Deduplication:
    """Sending, deduplicating, and the kill in the middle."""

    def __init__(self, fleet: Fleet, state: StateDir, helper: Executor, screen: Screen) -> None:
        self._fleet = fleet
        self._state = state
        self._helper = helper
        self._screen = screen

    def run(
        self, flights: Sequence[Message], sends: Sequence[Send]
    ) -> tuple[Sent, Deduplicated, Recovery]:
        """Send everything, kill a worker half way, and wait until all is through."""
        spec = self._fleet.stream.spec
        producer = FlakyProducer(spec.kafka.bootstrap_servers, spec.input.topic)
        with self._screen.step("Deduplicate", total=len(sends)) as through:
            half = len(sends) // 2
            with self._screen.step("Send, with repeats", total=len(sends)) as sending:

                def tell() -> None:
                    sending.reach(producer.sent)
                    self._show(through)

                producer.send(flights, sends[:half], tell)
                sent_seconds = sending.seconds
                victim = self._at_work(half // 2, through)
                recovering = self._helper.submit(self._kill, victim)
                resumed = sending.seconds
                producer.send(flights, sends[half:], tell)
                sent_seconds += sending.seconds - resumed
                sending.show(f"{len(sends):,} at {len(sends) / sent_seconds:,.0f}/s")
            drain = self._fleet.drain(_STALL_SECONDS)
            while not self._fleet.advance(drain):
                self._show(through)
                self._fleet.wait(_TICK_SECONDS)
            through.reach(len(sends))
            seconds = through.seconds
        kinds = Counter(send.kind for send in sends)
        sent = Sent(
            first=kinds[Kind.FIRST],
            retries=kinds[Kind.RETRY],
            replays=kinds[Kind.REPLAY],
            seconds=sent_seconds,
        )
        return sent, Deduplicated(records=len(sends), seconds=seconds), recovering.result()

    def _at_work(self, records: int, through: Step) -> int:
        """Wait until so many records are read; returns the partition that has read the most."""
        while self._read() < records:
            self._show(through)
            self._fleet.wait(_TICK_SECONDS)
        return max(self._fleet.views(), key=lambda view: view.consumed).partition

    def _kill(self, partition: int) -> Recovery:
        with self._screen.step(f"Kill worker {partition} with SIGKILL") as step:
            recovery = kill_and_follow(self._fleet, self._state, partition)
            step.show(f"back after {recovery.output_seconds:.1f} s")
            return recovery

    def _show(self, through: Step) -> None:
        through.reach(self._read())

    def _read(self) -> int:
        return sum(view.consumed for view in self._fleet.views())


def _read_with_spark(
    spark: SparkSession, stream: DedupeStream, directory: Path, screen: Screen
) -> _SparkFound:
    landed = directory / "flights.parquet"
    with screen.step("Land the clean topic as Parquet") as step:
        records = land(spark, stream, landed, json_schema=SCHEMA).records
        step.show(f"{records:,} records")
    with screen.step("Audit it against the raw topic") as step:
        audited = audit(spark, stream)
        step.show(f"{audited.total.defects:,} defects")
    with screen.step("Ask a question of both"):
        return _SparkFound(
            landed_records=records,
            audit=audited,
            clean_answer=answer_from_parquet(spark, landed),
            raw_answer=answer_from_raw(spark, stream),
        )


def _start_spark(directory: Path, screen: Screen) -> SparkSession:
    """Start Spark; what its Java process has to say goes to a file, for errors reach Python too."""
    shown = os.dup(2)
    with screen.step("Start Spark"), (directory / "spark.log").open("wb") as log:
        os.dup2(log.fileno(), 2)
        try:
            return spark_session("demo", properties={"spark.local.dir": str(directory / "spark")})
        finally:
            os.dup2(shown, 2)
            os.close(shown)
