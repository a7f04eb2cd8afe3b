"""Table and plot of what job `aggregate` costs."""

from statistics import median

import numpy as np
from matplotlib.axes import Axes

from benchmarks.cases.aggregate import Aggregated, AggregateRun
from benchmarks.tables import Table


def aggregate_tables(result: Aggregated) -> list[Table]:
    """A row for each size of batches, medians."""
    rows = []
    for batch, runs in _by_batch(result).items():
        seconds = median(run.seconds for run in runs)
        spark = median(run.spark_cpu_seconds for run in runs)
        rows.append(
            [
                f"{batch:,}",
                f"{seconds:.1f}",
                f"{result.records / seconds:,.0f}",
                f"{spark:.1f}",
                f"{median(run.postgres_cpu_seconds for run in runs):.1f}",
                f"{result.records / spark:,.0f}",
            ]
        )
    return [
        Table(
            f"Job aggregate: {result.records:,} flights into {result.runs[0].rows:,} rows",
            (
                "records a batch",
                "s",
                "records/s",
                "Spark CPU s",
                "PostgreSQL CPU s",
                "records/Spark CPU s",
            ),
            rows,
            "Medians, of whole runs: reading the topic, windows, keys, COPY, merge, offsets. Spark's session is there "
            "before; its CPU time is that of the JVM and of Python.",
        )
    ]


def plot_aggregate(axes: Axes, result: Aggregated) -> None:
    """Records a second for each size of batches."""
    found = _by_batch(result)
    places = np.arange(len(found))
    rates = [[result.records / run.seconds for run in runs] for runs in found.values()]
    axes.bar(places, [median(each) / 1e3 for each in rates], 0.5, color="#2a6fdb")
    for place, each in zip(places, rates, strict=True):
        axes.plot([place] * len(each), [rate / 1e3 for rate in each], ".", color="black")
    axes.set(
        xlabel="records a batch", ylabel="thousand records / s", title="flights into PostgreSQL"
    )
    axes.set_xticks(places, [f"{batch:,}" for batch in found])


def _by_batch(result: Aggregated) -> dict[int, list[AggregateRun]]:
    sizes = sorted({run.batch for run in result.runs})
    return {size: [run for run in result.runs if run.batch == size] for size in sizes}
