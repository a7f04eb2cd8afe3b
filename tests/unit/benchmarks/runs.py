"""Results as a benchmark would give them."""

from datetime import UTC, datetime

from benchmarks.cases.aggregate import Aggregated, AggregateRun
from benchmarks.cases.audit import AuditRun, Audits
from benchmarks.cases.change import ALONE, BARE, BEHIND, ROUTER, Change, Costs
from benchmarks.cases.change_latency import ChangeLatency
from benchmarks.cases.chunks import ManyChunks, Planned
from benchmarks.cases.filters import Filters, Gap, Rate, Read, Skipping
from benchmarks.cases.filters_spark import OURS, THEIRS, SparkRead
from benchmarks.cases.inverse_bloom import FixedTables, Retained, Taken
from benchmarks.cases.landing import PARQUET, SPARKS_OWN, Landing, Landings
from benchmarks.cases.latency import QUANTILES, Latency, LatencyRun, PairedLatency
from benchmarks.cases.native import NativeSize, NativeUse
from benchmarks.cases.router import RouterPair, RouterUse
from benchmarks.cases.router_latency import LatencyPair, RouterLatency
from benchmarks.cases.throughput import Pair, Size
from benchmarks.growth.result import Delays, GrowthUse, Learner, Period
from benchmarks.harness.check import Verdict
from benchmarks.harness.machine import Machine
from benchmarks.harness.pacer import Pace
from benchmarks.harness.spark_jvm import Written
from benchmarks.harness.steady import LoopRun

MACHINE = Machine(
    measured=datetime(2026, 11, 22, tzinfo=UTC),
    cpu="a processor",
    cores=2,
    memory_bytes=1 << 34,
    kernel="Linux",
    python="CPython",
    versions={},
    load_before=0.0,
)
CLEAN = Verdict(expected=95, found=95, lost=0, twice=0, altered=0, reordered=0)


def loop_run(
    *,
    messages: int = 100,
    seconds: float = 1.0,
    cpu_seconds: float = 1.0,
    broker: float = 0.3,
    other: float = 0.1,
) -> LoopRun:
    """A run; `broker` and `other` are CPU seconds."""
    return LoopRun(
        messages=messages,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        broker_cpu_seconds=broker,
        other_cpu_seconds=other,
        peak_bytes=1 << 20,
        stages={"produce": 2.0, "consume": 1.0},
        keys=95,
        verdicts=[CLEAN],
    )


def size(value_bytes: int, *shares: float) -> Size:
    """A size with a round for each share of the bare loop's messages a CPU second."""
    bare = loop_run(messages=1000)
    pairs = [Pair(bare=bare, worker=loop_run(messages=int(1000 * share))) for share in shares]
    return Size(value_bytes=value_bytes, messages=1000, rounds=pairs)


def latency_run(interval_ms: int | None, rate: int, milliseconds: float) -> LatencyRun:
    """A run all of whose messages took as long."""
    pace = Pace(
        start_ns=0,
        rate=rate,
        late_p50_ms=0.5,
        late_p99_ms=1.0,
        late_max_ms=2.0,
        seconds=10.0,
        cpu_seconds=1.0,
    )
    return LatencyRun(
        commit_interval_ms=interval_ms,
        rate=rate,
        records=100,
        quantiles_ms=[milliseconds] * len(QUANTILES),
        pace=pace,
        worker_cores=0.4,
        receiver_cores=0.1,
        broker_cores=0.5,
        transactions_per_second=10.0,
    )


def latency(*, usual_ms: float, half_load_ms: float) -> Latency:
    """A result at 10,000 and at 80,000 messages a second."""
    return Latency(
        rate=10_000,
        seconds=10.0,
        runs=[latency_run(None, 10_000, 4.0), latency_run(25, 10_000, usual_ms)],
        capacity=160_000.0,
        half_load=[latency_run(None, 80_000, 6.0), latency_run(25, 80_000, half_load_ms)],
    )


def change(*worker: tuple[float, float]) -> Change:
    """A result with a round for each cost of a worker before and after, where the bare loop's is 3 µs."""
    before, after = map(list, zip(*worker, strict=True))
    bare = [3.0] * len(worker)
    return Change(
        base="abc1234",
        messages=1000,
        costs=[
            Costs(what=BARE, before=bare, after=bare),
            Costs(what="passed, 5% repeats", before=before, after=after),
            Costs(what=ALONE, before=[5.0] * len(worker), after=[4.0] * len(worker)),
            Costs(what=ROUTER, before=[6.0] * len(worker), after=[4.0] * len(worker)),
            Costs(what=BEHIND, before=[5.0] * len(worker), after=[3.0] * len(worker)),
        ],
    )


def change_latency(before_ms: float, *after_ms: float) -> ChangeLatency:
    """A result with a round for each latency after."""
    return ChangeLatency(
        base="abc1234",
        rate=95_000,
        seconds=8.0,
        runs={
            "before": [latency_run(25, 95_000, before_ms) for _ in after_ms],
            "after": [latency_run(25, 95_000, each) for each in after_ms],
        },
    )


def native_use(*gains: float) -> NativeUse:
    """A result with a round for each share of today's messages a CPU second."""
    today = [loop_run(messages=1000) for _ in gains]
    native = [loop_run(messages=int(1000 * gain)) for gain in gains]
    size = NativeSize(value_bytes=512, messages=1000, runs={"today": today, "native": native})
    latency = {"today": latency_run(25, 95_000, 80.0), "native": latency_run(25, 95_000, 60.0)}
    runs = {way: [run] * len(gains) for way, run in latency.items()}
    return NativeUse(sizes=[size], latency=PairedLatency(rate=95_000, seconds=8.0, runs=runs))


def router_use(*shares: float) -> RouterUse:
    """A result with a round for each share of the bare loop's messages a CPU second."""
    bare = loop_run(messages=1000)
    pairs = [RouterPair(bare=bare, router=loop_run(messages=int(1000 * share))) for share in shares]
    return RouterUse(messages=1000, value_bytes=512, partitions=4, rounds=pairs)


def router_latency(*milliseconds: tuple[float, float]) -> RouterLatency:
    """A result with a round for each latency without routers and with them."""
    return RouterLatency(
        rate=10_000,
        seconds=10.0,
        alone=latency_run(None, 10_000, 4.0),
        rounds=[
            LatencyPair(
                without=latency_run(25, 10_000, without), routed=latency_run(25, 10_000, routed)
            )
            for without, routed in milliseconds
        ],
    )


def growth_use(
    *, usual_ms: float = 200.0, stays_ms: float = 190.0, moves_ms: float = 3_000.0, lost: int = 0
) -> GrowthUse:
    """A result of two new workers; the delays of ids that stay are p99, the others the longest."""

    def period(name: str, seconds: float, stays: float, moves: float) -> Period:
        return Period(
            name=name,
            seconds=seconds,
            stays=Delays(records=200, p50_ms=50.0, p99_ms=stays, longest_ms=2 * stays),
            moves=Delays(records=100, p50_ms=60.0, p99_ms=moves / 2, longest_ms=moves),
        )

    return GrowthUse(
        ids=1_000,
        rate=2_000,
        before=4,
        after=6,
        inputs=4,
        value_bytes=512,
        usual=period("before", 20.0, usual_ms, usual_ms),
        whole=period("growth", 9.0, stays_ms, moves_ms),
        steps=[
            period("asked", 1.0, usual_ms, usual_ms),
            period("Learning", 5.0, usual_ms, usual_ms),
            period("ReadingRest", 3.0, stays_ms, moves_ms).model_copy(update={"stays": None}),
        ],
        later=period("after", 10.0, usual_ms, usual_ms),
        learners=[
            Learner(partition=each, records=900, ids=150, seconds=3.0, records_in_all=1_100)
            for each in (4, 5)
        ],
        output_records=1_100,
        output_bytes=3_000_000,
        pace=latency_run(25, 2_000, 0.0).pace,
        verdict=CLEAN.model_copy(update={"lost": lost}),
    )


def aggregated(*runs: tuple[int, float]) -> Aggregated:
    """A result of runs with so many records a batch and so many seconds."""
    return Aggregated(
        records=1000,
        runs=[
            AggregateRun(
                batch=batch,
                rows=50,
                seconds=seconds,
                spark_cpu_seconds=seconds * 2,
                postgres_cpu_seconds=1,
            )
            for batch, seconds in runs
        ],
    )


def audits(*, seconds: float = 10.0) -> Audits:
    """A result for small and large values: a record takes 10 and 20 µs of CPU time."""
    return Audits(
        cores=2,
        partitions=2,
        driver_memory="2g",
        runs=[
            AuditRun(
                value_bytes=value_bytes,
                records=1_000_000,
                output_records=950_000,
                topic_bytes=1 << 27,
                seconds=seconds,
                cpu_seconds=1.95 * micros,
                peak_bytes=1 << 30,
                written=Written(shuffled=117_000_000, spilled=3_000_000),
            )
            for value_bytes, micros in ((64, 10.0), (1_024, 20.0))
        ],
    )


def fixed_tables(*, per_cpu_second: float = 2e6, measured: float = 0.895) -> FixedTables:
    """A result for two tables; the formula expects 0.9 in the end."""
    return FixedTables(
        ids=1000,
        taken=[
            Taken(slots=1_000, per_cpu_second=[9e6], per_second=[8e6]),
            Taken(slots=50_000, per_cpu_second=[per_cpu_second] * 3, per_second=[1e6, 2e6, 3e6]),
        ],
        slots=1_000,
        retained=[
            Retained(later=10, expected=0.99, measured=0.99),
            Retained(later=105, expected=0.9, measured=measured),
        ],
    )


def filters(
    *, measured: float = 0.01, fetched: int = 100_000, seconds: float = 1.0, cpu: float = 10.0
) -> Filters:
    """A result; bytes and seconds are those of skipping with chunks of 10,000 records."""
    return Filters(
        messages=1000,
        rates=[Rate(values=10, size_bytes=16, published=0.02, expected=0.002, measured=measured)],
        sizes=[
            _skipping(1_000, 900_000, 9.0),
            _skipping(10_000, fetched, seconds),
            _skipping(100_000, 900_000, 9.0),
        ],
        gaps=[
            Gap(offsets=50, fetched_ms=1.0, skipped_ms=2.0),
            Gap(offsets=500, fetched_ms=3.0, skipped_ms=2.0),
        ],
        spark=[
            SparkRead(what=what, records=1000, seconds=1.0, cpu_seconds=seconds)
            for what, seconds in ((OURS, cpu), (THEIRS, 10.0))
        ],
    )


def many_chunks(*, plan: float = 0.5, everything: float = 9.0) -> ManyChunks:
    """A result; `plan` is the seconds of a plan, `everything` those of a read that skips nothing."""
    rare = "1 chunk in 1,000"
    return ManyChunks(
        messages=1_000_000,
        chunks=10_000,
        plans=[
            Planned(what="1 chunk in 10", chunks=990, ranges=990, seconds=[plan]),
            Planned(what=rare, chunks=10, ranges=10, seconds=[plan]),
        ],
        spark=[
            SparkRead(
                what="everything, filtered by Spark",
                records=1_000,
                seconds=everything,
                cpu_seconds=12.0,
            ),
            SparkRead(what="1 chunk in 10", records=99_000, seconds=3.0, cpu_seconds=4.0),
            SparkRead(what=rare, records=1_000, seconds=1.0, cpu_seconds=2.0),
        ],
    )


def landings(*, cpu: float = 15.0) -> Landings:
    """A result; `cpu` is the CPU seconds of `land`, those of Spark's own sink are 10."""
    files = [1_000_000, 2_000_000, 4_000_000]
    return Landings(
        messages=1_000,
        value_bytes=512,
        batch=500,
        days=3,
        runs=[
            Landing(what=what, seconds=5.0, cpu_seconds=seconds, files=files)
            for what, seconds in ((SPARKS_OWN, 10.0), (PARQUET, cpu))
        ],
    )


def _skipping(chunk: int, fetched: int, seconds: float) -> Skipping:
    return Skipping(
        chunk_records=chunk,
        everything=[Read(records=100, seconds=8.0, fetched_bytes=1_000_000)] * 2,
        skipping=[Read(records=100, seconds=seconds, fetched_bytes=fetched)] * 2,
    )
