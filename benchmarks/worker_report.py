"""Tables and goals of what `make bench` measures of a worker, but for its memory and its reconcile."""

from typing import Final

from benchmarks.cases import ageing, cores, extras, latency, throughput
from benchmarks.cases.ageing import Ageing
from benchmarks.cases.cores import CoreUse
from benchmarks.cases.extras import Extras
from benchmarks.cases.latency import Latency, LatencyRun
from benchmarks.cases.throughput import Size, Throughput
from benchmarks.harness.steady import LoopRun
from benchmarks.tables import Goal, Table

_MIB: Final = 1 << 20
_EXTRAS_NOTE: Final = (
    "Cost is in CPU time of the worker for a message, beside the plain stream of the same round. Each adds to the one "
    "before it where its name begins with *and*."
)
_SPEED: Final = ("msgs/CPU s", "msgs/s", "broker cores", "other cores", "peak MiB")


def throughput_tables(result: Throughput) -> list[Table]:
    """A summary, the rounds of each size, and the stages with the usual one."""
    return [_sizes(result), *(_rounds(size) for size in result.sizes), _stages(result.usual)]


def throughput_goals(result: Throughput) -> list[Goal]:
    """The share of the bare loop, for each size."""
    return [
        Goal(
            f"messages a CPU second, worker : bare loop, values of {size.value_bytes} bytes",
            f"≥ {throughput.GOAL_SHARE:.0%}",
            f"{size.cpu_share:.1%}",
            size.cpu_share >= throughput.GOAL_SHARE,
        )
        for size in _by_bytes(result)
    ]


def cores_tables(result: CoreUse) -> list[Table]:
    """The rounds."""
    rows = []
    for number, pair in enumerate(result.rounds, start=1):
        left = f"{pair.possible_speedup:.2f}"
        rows += [
            [f"{number}, one worker", *_speed(pair.one), _loop_cores(pair.one), "", ""],
            [
                f"{number}, two workers",
                *_speed(pair.two),
                _loop_cores(pair.two),
                f"{pair.speedup:.2f}",
                left,
            ],
        ]
    return [
        Table(
            f"Workers bound to cores: {result.messages:,} messages in each partition, steady state",
            ("round", *_SPEED, "worker cores", "times one", "possible"),
            rows,
            "One worker: all its threads on one core, broker and benchmark on the others. Two workers: on two "
            "partitions, each on a core of its own, broker and benchmark on the cores that are left, or on all if "
            f"none is (of {result.rounds[0].cores} here). “Possible”: the CPU time left for the two, by that which "
            "the one took. It says nothing of how much slower a core is while the other is busy, too.",
        )
    ]


def cores_goals(result: CoreUse) -> list[Goal]:
    """What a core does, and what two do."""
    factor = result.per_minute / cores.GOAL_PER_MINUTE
    wanted = result.wanted_speedup
    return [
        Goal(
            "messages a minute of a worker on one core",
            f"≥ {cores.GOAL_PER_MINUTE / 1e6:g} M",
            f"{result.per_minute / 1e6:.1f} M ({factor:.1f} times as many)",
            factor >= 1,
        ),
        Goal(
            f"two workers on two partitions, times one (goal {cores.GOAL_SPEEDUP}, of "
            f"{result.possible_speedup:.2f} that the broker leaves)",
            f"≥ {wanted:.2f}",
            f"{result.speedup:.2f}",
            result.speedup >= wanted,
        ),
    ]


def ageing_tables(result: Ageing) -> list[Table]:
    """The rounds."""
    rows = []
    for number, pair in enumerate(result.rounds, start=1):
        for what, run in (("keeps all", pair.keeping), ("ages", pair.ageing)):
            cost = f"{pair.cost:+.1%}" if run is pair.ageing else ""
            rows.append([f"{number}, {what}", *_speed(run), f"{run.keys:,}", cost])
    return [
        Table(
            f"A window that ages: {result.messages:,} messages with values of {ageing.VALUE_BYTES} bytes, steady state",
            ("round", *_SPEED, "ids in the end", "cost"),
            rows,
            f"The window that ages keeps {ageing.MAX_AGE_SECONDS} seconds, in five generations as by default, so that "
            "one is begun and one is dropped again and again, as a usual window does in days. Cost is in CPU time.",
        )
    ]


def ageing_goals(result: Ageing) -> list[Goal]:
    """What it costs."""
    wanted = f"< {ageing.GOAL_SHARE:.0%}"
    reached = result.cost < ageing.GOAL_SHARE
    return [Goal("cost of ageing, in CPU time", wanted, f"{result.cost:.1%}", reached)]


def extras_tables(result: Extras) -> list[Table]:
    """Every run."""
    tables = []
    for rate in result.rates:
        rows = []
        for number, each in enumerate(rate.rounds, start=1):
            for kind, run in each.runs.items():
                cost = "" if kind == extras.PLAIN else f"{each.cost(kind):+.1%}"
                rows.append([f"{number}, {kind}", *_speed(run), cost])
        title = f"What else a stream may ask for: {result.messages:,} messages, {rate.repeat_rate:.1%} of them repeats"
        tables.append(Table(title, ("round", *_SPEED, "cost"), rows, _EXTRAS_NOTE))
    return tables


def extras_goals(result: Extras) -> list[Goal]:
    """What owners cost that are right after a rebuild, with few duplicates."""
    cost = min(result.rates, key=lambda rate: rate.repeat_rate).cost(extras.OWNERS)
    wanted = f"≤ {extras.GOAL_SHARE:.0%}"
    what = "duplicates to a topic of their own, and notes about owners, in CPU time"
    return [Goal(what, wanted, f"{cost:.1%}", cost <= extras.GOAL_SHARE)]


def latency_tables(result: Latency) -> list[Table]:
    """How long messages took, and what that took."""
    note = (
        "From the time at which a message is due to be sent to its receipt by a read_committed consumer; "
        f"{result.seconds:.0f} s each. Half load is half of the {result.capacity:,.0f} messages/s that a worker did "
        "with a backlog just before."
    )
    caution = (
        "CPU seconds a second of each process. A producer that sends late, because the processors are busy, adds to "
        "the latency of what it sends late."
    )
    runs = [*result.half_load, *result.runs]
    percents = (50.0, 99.0, 99.9, 100.0)
    quantiles = [[*_setting(run), *(f"{run.quantile(p):.1f}" for p in percents)] for run in runs]
    taken = [[*_setting(run), *_taken(run)] for run in runs]
    setting = ("commit interval", "messages/s")
    return [
        Table("End-to-end latency, ms", (*setting, "p50", "p99", "p99.9", "max"), quantiles, note),
        Table(
            "What that took",
            (
                *(*setting, "commits/s", "worker", "broker", "producer", "receiver"),
                "sent late p99, ms",
            ),
            taken,
            caution,
        ),
    ]


def latency_goals(result: Latency) -> list[Goal]:
    """Quantiles at the default settings."""
    usual, half = result.default, result.default_at_half_load
    return [
        _at_most("p50", usual, latency.GOAL_P50_MS),
        _at_most("p99", usual, latency.GOAL_P99_MS),
        _at_most("p99", half, latency.GOAL_HALF_LOAD_P99_MS, " (half load)"),
    ]


def _at_most(quantile: str, run: LatencyRun, wanted_ms: float, hint: str = "") -> Goal:
    measured_ms = run.quantile(float(quantile[1:]))
    what = f"latency {quantile} at default settings and {run.rate:,} messages/s{hint}"
    return Goal(what, f"≤ {wanted_ms:.0f} ms", f"{measured_ms:.1f} ms", measured_ms <= wanted_ms)


def _by_bytes(result: Throughput) -> list[Size]:
    return sorted(result.sizes, key=lambda size: size.value_bytes)


def _sizes(result: Throughput) -> Table:
    return Table(
        "Throughput: medians for each size of values",
        (
            *("bytes", "messages", "rounds", "bare, msgs/CPU s", "worker, msgs/CPU s", "share"),
            "share of bare with jemalloc",
        ),
        [
            [
                f"{size.value_bytes:,}",
                f"{size.messages:,}",
                f"{len(size.rounds)}",
                f"{size.bare_per_cpu_second:,.0f}",
                f"{size.worker_per_cpu_second:,.0f}",
                f"{size.cpu_share:.1%}",
                "" if size.jemalloc_share is None else f"{size.jemalloc_share:.1%}",
            ]
            for size in _by_bytes(result)
        ],
        "The share is the median of the rounds' shares. Every output was checked: lost 0, twice 0, altered 0, the "
        "worker's in order.",
    )


def _rounds(size: Size) -> Table:
    rows = []
    few = size.messages < throughput.ENOUGH_MESSAGES
    caution = " Too few messages for a fair share: see throughput.py." if few else ""
    for number, pair in enumerate(size.rounds, start=1):
        rows += [
            [f"{number} bare", *_speed(pair.bare), ""],
            *(
                [[f"{number} bare, jemalloc", *_speed(pair.bare_jemalloc), ""]]
                if pair.bare_jemalloc
                else []
            ),
            [f"{number} worker", *_speed(pair.worker), f"{pair.cpu_share:.1%}"],
        ]
    return Table(
        f"Values of {size.value_bytes:,} bytes: {size.messages:,} messages, steady state",
        ("round", *_SPEED, "share"),
        rows,
        f"“Other cores” is what the rest of the machine used, the benchmark itself included.{caution}",
    )


def _speed(run: LoopRun) -> list[str]:
    return [
        f"{run.per_cpu_second:,.0f}",
        f"{run.per_second:,.0f}",
        f"{run.broker_cpu_seconds / run.seconds:.2f}",
        f"{run.other_cpu_seconds / run.seconds:.2f}",
        f"{run.peak_bytes / _MIB:.0f}",
    ]


def _loop_cores(run: LoopRun) -> str:
    return f"{run.cpu_seconds / run.seconds:.2f}"


def _stages(size: Size) -> Table:
    stages = sorted(size.stages.items(), key=lambda stage: -stage[1])
    return Table(
        f"The worker's loop by stage, values of {size.value_bytes} bytes",
        ("stage", "µs a message"),
        [[name, f"{micros:.2f}"] for name, micros in stages],
        "Elapsed time, medians: waiting for data is in “consume”, waiting for room in the queue to the broker in "
        "“produce”, waiting for acknowledgements in “commit”.",
    )


def _setting(run: LatencyRun) -> list[str]:
    rate = f"{run.rate:,}"
    if run.commit_interval_ms is None:
        return ["without a worker", rate]
    is_default = run.commit_interval_ms == latency.DEFAULT_INTERVAL_MS
    return [f"{run.commit_interval_ms} ms" + (" (default)" if is_default else ""), rate]


def _taken(run: LatencyRun) -> list[str]:
    return [
        f"{run.transactions_per_second:.1f}",
        f"{run.worker_cores:.2f}",
        f"{run.broker_cores:.2f}",
        f"{run.pace.cpu_seconds / run.pace.seconds:.2f}",
        f"{run.receiver_cores:.2f}",
        f"{run.pace.late_p99_ms:.1f}",
    ]
