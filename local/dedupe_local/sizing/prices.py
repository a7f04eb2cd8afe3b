"""The monthly cost of a size, at the prices that the user gives with `--price`.

The command calls it. Invariant: the product itself knows no price.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

from dedupe_crds.quantity import GIB
from dedupe_local.sizing.report import Row, count
from dedupe_local.sizing.rocksdb import Size, Traffic

PRICES: Final = {
    "core": "a core, for a month",
    "memory": "a GiB of memory, for a month",
    "disk": "a GiB of a volume, for a month",
    "bucket": "a GiB in a bucket, for a month",
}
"""Each resource that can have a price, with the unit of the price."""


def parse_prices(texts: Sequence[str]) -> dict[str, float]:
    """Parse NAME=PRICE texts into prices by name.

    Raises:
        ValueError: a name is not in PRICES, or a price is no number from 0.
    """
    found = {}
    for text in texts:
        name, _, price = text.partition("=")
        try:
            found[name] = float(price)
        except ValueError:
            found[name] = -1.0
        if name not in PRICES or not 0 <= found[name] < inf:
            known = ", ".join(f"{name} ({what})" for name, what in PRICES.items())
            raise ValueError(f"{text!r}: write NAME=PRICE, such as core=25, of {known}")
    return found


def cost_rows(traffic: Traffic, found: Size, prices: Mapping[str, float]) -> list[Row]:
    """Return a row for each price, and their sum."""
    amounts = {
        "core": found.cores,
        "memory": found.memory_bytes / GIB,
        "disk": found.volumes_bytes / GIB,
        "bucket": found.stores_bytes / GIB if traffic.snapshots else 0.0,
    }
    costs = [
        Row(
            f"cost a month: {name}",
            f"{amounts[name] * price:,.0f}",
            f"{count(amounts[name])}{'' if name == 'core' else ' GiB'} * {price:g}",
        )
        for name, price in prices.items()
    ]
    total = sum(amounts[name] * price for name, price in prices.items())
    return [
        *costs,
        Row("cost a month", f"{total:,.0f}", "their sum; Kafka's brokers are not in it"),
    ]
