"""Tables, goals and plot of what a table of fixed size takes and retains."""

from typing import Final

import numpy as np
from matplotlib.axes import Axes

from benchmarks.cases import inverse_bloom
from benchmarks.cases.inverse_bloom import FixedTables
from benchmarks.tables import Goal, Table
from dedupe_worker.inverse_bloom.sizing import messages_for, retained

_MB: Final = 1e6


def inverse_bloom_tables(result: FixedTables) -> list[Table]:
    """How fast, and what is retained."""
    speeds = [
        [
            f"{taken.slots:,}",
            f"{inverse_bloom.table_bytes(taken.slots) / _MB:,.0f}",
            f"{taken.typical / 1e6:.2f} M",
            f"{min(taken.per_second) / 1e6:.2f} to {max(taken.per_second) / 1e6:.2f} M",
        ]
        for taken in result.taken
    ]
    shares = [
        [f"{one.later:,}", f"{one.expected:.2%}", f"{one.measured:.2%}"] for one in result.retained
    ]
    return [
        Table(
            f"A table of fixed size takes {result.ids:,} new ids",
            ("slots", "MB", "ids/CPU s", "ids/s"),
            speeds,
            "Through the worker's window: hashed, looked up, put, and written to disk as they come.",
        ),
        Table(
            f"What {result.slots:,} slots retain",
            ("ids since the first", "by the formula", "measured"),
            shares,
            "Of the first 100,000 ids. The formula is (1 - 1/N)^x for each of them, with the ids after it.",
        ),
    ]


def inverse_bloom_goals(result: FixedTables) -> list[Goal]:
    """The slowest size, and the largest difference."""
    slowest = min(taken.typical for taken in result.taken)
    farthest = max(abs(one.measured - one.expected) for one in result.retained)
    return [
        Goal(
            "ids a CPU second into a table of fixed size",
            f"≥ {inverse_bloom.GOAL_PER_CPU_SECOND:,}",
            f"{slowest:,.0f}",
            slowest >= inverse_bloom.GOAL_PER_CPU_SECOND,
        ),
        Goal(
            "what it retains, beside the formula",
            f"± {inverse_bloom.GOAL_RETAINED:.0%}",
            f"{farthest:.2%}",
            farthest <= inverse_bloom.GOAL_RETAINED,
        ),
    ]


def plot_inverse_bloom(axes: Axes, result: FixedTables) -> None:
    """Retention over ids, and the formula's line."""
    later = np.linspace(0, result.retained[-1].later * 1.1, 200)
    axes.plot(
        later / 1e6,
        [retained(result.slots, x) * 100 for x in later.tolist()],
        color="#8a8f98",
        label="(1 - 1/N)^x",
    )
    axes.plot(
        # The ids of the sample have fewer after them the later they came: where the formula has their mean.
        [messages_for(result.slots, one.expected) / 1e6 for one in result.retained],
        [one.measured * 100 for one in result.retained],
        "o",
        color="#2a6fdb",
        label="measured",
    )
    axes.set(
        title=f"what a table of {result.slots / 1e6:g} M slots retains",
        xlabel="M later ids",
        ylabel="%",
        ylim=(0, 102),
    )
    axes.legend(frameon=False)
