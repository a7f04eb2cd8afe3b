"""Judge only what is new, against what earlier audits have read.

The job `audit` calls it. Digests of the new records are written to a directory next to those of earlier audits; then
each message that is among the new records is judged with all its remembered records, by the same rules as without a
memory. So a verdict on a new record is that of an audit of everything, unless the id is older than the window.
Invariant: the records that one of the input is judged by are remembered until it is judged, and a pending one is read
again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name all of Spark's documentation uses)

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.spec.topics import IdSource
from dedupe_kafka.offsets import TopicOffsets
from dedupe_pipeline.connection import KafkaConnection
from dedupe_pipeline.errors import RequestRefused
from dedupe_pipeline.jobs.audit import corrections
from dedupe_pipeline.jobs.audit.excuses import Facts, looked_up
from dedupe_pipeline.jobs.audit.identity import with_identity
from dedupe_pipeline.jobs.audit.in_order import with_stream_time
from dedupe_pipeline.jobs.audit.memory import Generation, Memory, Offsets, State
from dedupe_pipeline.jobs.audit.parallel import read_tasks
from dedupe_pipeline.jobs.audit.positions import in_task, place_in_task, records_before, task_of
from dedupe_pipeline.jobs.audit.ranges import Ranges
from dedupe_pipeline.jobs.written_files import check_written
from dedupe_pipeline.runtime.hadoop_paths import spark_path
from dedupe_pipeline.runtime.portable import parallelism
from dedupe_pipeline.source import read_range

_ROWS = (
    "position BIGINT, partition INT, offset BIGINT, time_ms BIGINT, digest BINARY, body BIGINT, "
    "has_id BOOLEAN, ident BINARY, generation INT, side STRING"
)


def check_supported(stream: DedupeStream, *, is_bounded: bool, is_landed: bool) -> None:
    """Raise RequestRefused for what no memory can be kept of."""
    spec = stream.spec
    for is_given, what in (
        (spec.repartition is not None, "a stream with spec.repartition"),
        (spec.late.topic is not None, "a stream with a topic for late messages"),
        (is_bounded, "--since, --last or --offsets"),
        (is_landed, "--landed"),
    ):
        if is_given:
            raise RequestRefused(f"--remember is not possible with {what}: audit without it")


def only_new(ranges: Ranges, state: State) -> Ranges:
    """Return the part of the topics that no audit has judged."""
    (raw,) = ranges.raw
    return replace(ranges, raw=[_from(raw, state.raw)], clean=_from(ranges.clean, state.clean))


@dataclass(frozen=True, kw_only=True)
class Continued:
    """An audit that continues where an earlier one has ended."""

    spark: SparkSession
    connection: KafkaConnection
    source: IdSource
    memory: Memory
    state: State
    ranges: Ranges
    facts: Facts

    @property
    def _number(self) -> int:
        return self.state.count + 1

    @property
    def judged_to(self) -> Offsets:
        """The offsets of the input up to which this audit judges."""
        (raw,) = self.ranges.raw
        return {
            number: max(low, min(self.ranges.judged_before.get((raw.topic, number), low), end))
            for number, low, end in (
                (number, low, raw.ends[number]) for number, low in raw.lows.items()
            )
        }

    def write(self) -> Generation:
        """Write the digests of the new records."""
        (raw,) = self.ranges.raw
        rows = self._read(replace(raw, ends=self.judged_to), "raw").unionByName(
            self._read(self.ranges.clean, "clean")
        )
        counted, directory = Observation(), self.memory.path(self._number)
        rows = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
        rows.write.partitionBy("side").parquet(spark_path(directory))
        check_written(directory, counted.get["rows"], self.memory.directory)
        sent = self._rows([self._number]).where(F.col("side") == "raw")
        tasks = (
            sent.groupBy(F.col("partition").alias("place"), task_of("position").alias("task"))
            .agg(F.count("offset").alias("records"), F.min("offset").alias("first"))
            .collect()
        )
        return Generation(
            number=self._number,
            records_before=records_before(tasks, self.state.positions),
            ends=self.ranges.clean.ends,
            stream_ms=self._stream_ms(),
        )

    def history(self, written: Generation) -> tuple[DataFrame, DataFrame]:
        """Return the records of the input and the output to judge the new ones by."""
        (raw,) = self.ranges.raw
        pending = self._read(replace(raw, lows=self.judged_to), "raw")
        pending = pending.withColumn("position", F.lit(None).cast("bigint"))
        new = self._positioned([written]).unionByName(pending)
        earlier = self._positioned(self.state.generations)
        known = earlier.join(new.select("ident").distinct(), "ident", "left_semi")
        rows = known.unionByName(new)
        sides = (rows.where(F.col("side") == side).drop("side") for side in ("raw", "clean"))
        sent, passed = sides
        return sent, passed.drop("position")

    def corrections_of(self, judged: DataFrame) -> DataFrame:
        """Return the verdicts on new records that `corrections.corrected` replaces."""
        new = judged.where(F.col("clean_offset") >= looked_up(self.state.clean))
        found = corrections.reordered(new, self.facts, self.state.last_kept)
        if not corrections.has_old(new):
            return found
        numbers = [*(each.number for each in self.state.generations), self._number]
        before = self.state.dropped.stream_ms if self.state.dropped else {}
        times = self._rows(numbers).where(F.col("side") == "clean")
        times = times.select(F.col("partition").alias("place"), "offset", "time_ms")
        return found.unionByName(corrections.old_repeats(new, self.facts, times, before))

    @contextmanager
    def new_verdicts(self, judged: DataFrame) -> Iterator[DataFrame]:
        """Return the verdicts on new records only; a place that is known is null."""
        is_new = {
            f"{side}_offset": F.col(f"{side}_offset") >= looked_up(known)
            for side, known in (("raw", self.state.raw), ("clean", self.state.clean))
        }
        new = judged.where(
            F.greatest(*(F.coalesce(each, F.lit(False)) for each in is_new.values()))
        )
        new = new.withColumns({name: F.when(each, F.col(name)) for name, each in is_new.items()})
        lost = new.where((F.col("verdict") == "lost") & F.col("has_id"))
        if self.state.dropped is None or lost.isEmpty():
            yield new
            return
        # A worker may know an id for longer than its window, so its repeat is not lost.
        clean = self.ranges.clean
        lows = dict.fromkeys(clean.lows, 0) | self._lowest()
        old = replace(clean, lows=lows, ends={**lows, **self.state.dropped.ends})
        passed = self._read(old, "clean").join(lost.select("ident"), "ident", "left_semi")
        with corrections.persisted(passed.select("ident").distinct()) as found:
            came = F.col("came_out") & (F.col("verdict") == "lost")
            marked = new.join(found.withColumn("came_out", F.lit(True)), "ident", "left")
            yield marked.withColumns(
                {
                    "verdict": F.when(came, "removed").otherwise(F.col("verdict")),
                    "is_repeat": F.col("is_repeat") | F.coalesce(came, F.lit(False)),
                }
            ).drop("came_out")

    def next_state(self, judged: DataFrame, written: Generation) -> State:
        """Return what the next audit continues from."""
        kept = (
            corrections.kept(judged).groupBy("place").agg(F.max_by("value", "offset").alias("at"))
        )
        rows = self._rows([written.number])
        sent = rows.where(F.col("side") == "raw").groupBy("partition").count().collect()
        positions = self.state.positions | {
            row["partition"]: row["count"] + self.state.positions.get(row["partition"], 0)
            for row in sent
        }
        ends = self.ranges.clean.ends
        generations = [*self.state.generations, written]
        dropped = self.state.dropped
        while len(generations) > 1 and _is_past(generations[0], written, self.facts):
            dropped = generations.pop(0)
        return self.state.model_copy(
            update={
                "raw": self.judged_to,
                "clean": ends,
                # All that was read is older than what will be.
                "begins": {n: min(at, ends[n]) for n, at in self.facts.begins.items()},
                "accounted_from": {
                    n: min(at, self.judged_to[int(n)])
                    for n, at in self.facts.accounted_from.items()
                },
                "positions": positions,
                "last_kept": self.state.last_kept
                | {row["place"]: row["at"] for row in kept.collect()},
                "last_ms": self.state.last_ms | self._last_ms(),
                "generations": generations,
                "dropped": dropped,
                "count": self._number,
            }
        )

    def _read(self, offsets: TopicOffsets, side: str) -> DataFrame:
        tasks = read_tasks([offsets], parallelism(self.spark))
        read = read_range(self.spark, self.connection, offsets, tasks=tasks)
        read = read.withColumn("position", in_task())
        return with_identity(read, self.source, keep=("position",)).withColumn("side", F.lit(side))

    def _rows(self, numbers: list[int]) -> DataFrame:
        if not numbers:
            return self.spark.createDataFrame([], _ROWS)
        read = self.spark.read.schema(_ROWS).option("basePath", spark_path(self.memory.directory))
        return read.parquet(*(spark_path(self.memory.path(number)) for number in numbers))

    def _positioned(self, generations: list[Generation]) -> DataFrame:
        known = [
            (each.number, task, before)
            for each in generations
            for task, before in enumerate(each.records_before)
        ]
        before = self.spark.createDataFrame(known, "generation INT, task INT, before BIGINT")
        rows = self._rows([each.number for each in generations])
        position = F.col("before") + place_in_task("position")
        return (
            rows.withColumn("task", task_of("position"))
            .join(F.broadcast(before), ["generation", "task"], "left")
            .withColumn("position", F.when(F.col("side") == "raw", position))
            .drop("before", "task", "generation")
        )

    def _new_times(self) -> DataFrame:
        clean = self._rows([self._number]).where(F.col("side") == "clean")
        return clean.select(F.col("partition").alias("place"), "offset", "time_ms")

    def _last_ms(self) -> Offsets:
        last = self._new_times().groupBy("place").agg(F.max_by("time_ms", "offset").alias("at"))
        return {row["place"]: row["at"] for row in last.collect()}

    def _stream_ms(self) -> Offsets:
        """Return the time of the stream at the end.

        The last record has no neighbour after it yet, so it does not count; the one before the first is the last of the
        audit before.
        """
        earlier = self.state.generations[-1].stream_ms if self.state.generations else {}
        edge = [(n, self.state.clean[n] - 1, ms) for n, ms in self.state.last_ms.items()]
        edges = self.spark.createDataFrame(edge, "place INT, offset BIGINT, time_ms BIGINT")
        times = with_stream_time(self._new_times().unionByName(edges), self.facts.now_ms, earlier)
        last = F.max("offset").alias("last")
        ends = times.groupBy("place").agg(last)
        before = times.join(F.broadcast(ends), "place").where(F.col("offset") < F.col("last"))
        found = before.groupBy("place").agg(F.max("stream_ms").alias("at")).collect()
        return earlier | {row["place"]: row["at"] for row in found if row["at"] is not None}

    def _lowest(self) -> Offsets:
        return self.connection.cluster().offsets(self.ranges.clean.topic).lows


def _is_past(generation: Generation, now: Generation, facts: Facts) -> bool:
    """Return whether a repeat of any id in a generation may pass from now on."""
    return all(
        facts.is_past(
            now.stream_ms.get(number, 0) - generation.stream_ms[number]
            if number in generation.stream_ms
            else 0,
            now.ends[number] - end,
        )
        for number, end in generation.ends.items()
        if end > 0
    )


def _from(offsets: TopicOffsets, known: Offsets) -> TopicOffsets:
    lows = {
        number: min(max(low, known.get(number, low)), offsets.ends[number])
        for number, low in offsets.lows.items()
    }
    return replace(offsets, lows=lows)
