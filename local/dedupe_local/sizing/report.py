"""The report of a size: a table with formulas and notes, or fields for a manifest.

Both calculations use its rows and number formats. Pure: no I/O.
"""

import textwrap
from datetime import timedelta
from math import ceil
from typing import Any, Final, NamedTuple

import yaml

from dedupe_crds.quantity import format_duration, format_size, parse_size
from dedupe_crds.spec.store import Window
from dedupe_local.sizing.constants import MESSAGES_BY_VALUE_BYTES, VALUE_BYTES, Measured
from dedupe_local.sizing.rocksdb import (
    GENERATIONS,
    MARGIN,
    RECORD_BYTES,
    VOLUME,
    VOLUME_WITH_CHECKPOINT,
    Size,
    Traffic,
    held_share,
    speed,
)

_WIDTH: Final = 120
_MOST_PARTITIONS: Final = 10_000
_MOST_BYTES: Final = parse_size("1Pi")
_ALERT_BELOW: Final = Window().alert_below


class Row(NamedTuple):
    """A row of the table: a quantity, its value and its formula."""

    what: str
    value: str
    formula: str


def rows(traffic: Traffic, found: Size, measured: Measured) -> list[Row]:
    """Return all rows of the table but for costs."""
    return [
        *_stream_rows(traffic, found, measured),
        *_partition_rows(traffic, found, measured),
        *_kafka_rows(traffic, found),
        *(_snapshot_rows(found, measured) if traffic.snapshots else []),
    ]


def notes(traffic: Traffic, found: Size, measured: Measured) -> list[str]:
    """Return notes on the source and the limits of the figures."""
    return [f"Measured: {measured.source}.", *warnings(traffic, found, measured)]


def warnings(traffic: Traffic, found: Size, measured: Measured) -> list[str]:
    """Return what was not measured, and what a worker or a manifest does not allow."""
    found_notes = []
    if traffic.value_bytes > max(MESSAGES_BY_VALUE_BYTES):
        cost = speed(traffic.value_bytes, measured).cost
        found_notes.append(
            f"Values of {traffic.value_bytes:,} B are larger than any measured ({max(MESSAGES_BY_VALUE_BYTES):,} B): a "
            f"message is taken to cost {cost:,.3g} times one of {VALUE_BYTES} B, in a straight line. A rebuild needs "
            f"{size_text(_rebuild_bytes(traffic, measured))}/s of network for each worker."
        )
    if found.worker_ids > measured.ids:
        found_notes.append(
            f"A store of {count(found.worker_ids)} ids is larger than any measured ({count(measured.ids)}): "
            "what depends on its size is extrapolated linearly. --rebuild-within makes stores smaller."
        )
    needed = max(found.partitions_for_speed, found.partitions_for_rebuild)
    if traffic.partitions and traffic.partitions < needed:
        found_notes.append(
            f"{traffic.partitions} partitions are too few: {found.partitions_for_speed} are needed for the speed, and "
            f"{found.partitions_for_rebuild} for a rebuild within {duration(traffic.rebuild_within.total_seconds())}."
        )
    if found.partitions > _MOST_PARTITIONS:
        found_notes.append(
            f"{found.partitions:,} partitions are more than a stream may have ({_MOST_PARTITIONS:,}): divide the "
            "traffic among several streams, or raise --rebuild-within."
        )
    if found.max_bytes > _MOST_BYTES:
        found_notes.append(
            f"window.maxBytes of {format_size(found.max_bytes)} is more than a manifest allows "
            f"({format_size(_MOST_BYTES)}): the stream needs more partitions."
        )
    return found_notes


def _rebuild_bytes(traffic: Traffic, measured: Measured) -> float:
    message = traffic.id_bytes + traffic.value_bytes + RECORD_BYTES
    return speed(traffic.value_bytes, measured).rebuild_per_second * message


def as_text(table: list[Row], remarks: list[str]) -> str:
    """Format a table in columns, with the remarks below it."""
    what, value = (max(len(row[column]) for row in table) for column in (0, 1))
    lines = [f"{row.what:<{what}}  {row.value:>{value}}  {row.formula}" for row in table]
    wrapped = [line for remark in remarks for line in textwrap.wrap(remark, _WIDTH)]
    return "\n".join([*lines, "", *wrapped])


def as_yaml(found: Size, window: timedelta, remarks: list[str]) -> str:
    """Return the fields of a manifest's spec, as YAML, with the remarks as comments."""
    memory = format_size(found.worker_memory_bytes)
    bounds = {"maxBytes": format_size(found.max_bytes), "maxAge": format_duration(window)}
    if window <= _ALERT_BELOW:  # alertBelow must be shorter than the window
        bounds["alertBelow"] = format_duration(window / 2)
    spec: dict[str, Any] = {
        "store": {"window": bounds},
        "storage": {"size": format_size(found.volume_bytes)},
        "worker": {
            "resources": {
                "requests": {"cpu": f"{ceil(found.worker_cores * 1000)}m", "memory": memory},
                "limits": {"memory": memory},
            }
        },
    }
    lines = [f"partitions of the input topic: {found.partitions}"]
    lines += [f"warning: {line}" for remark in remarks for line in textwrap.wrap(remark, _WIDTH)]
    comment = "".join(f"# {line}\n" for line in lines)
    return comment + yaml.safe_dump({"spec": spec}, sort_keys=False).rstrip()


def _stream_rows(traffic: Traffic, found: Size, measured: Measured) -> list[Row]:
    within = duration(traffic.rebuild_within.total_seconds())
    worker = speed(traffic.value_bytes, measured)
    rate, window = count(traffic.messages_per_second), duration(traffic.window.total_seconds())
    chosen = "as given" if traffic.partitions else "the larger number, rounded up"
    return [
        Row("messages/s", rate, f"the average over {window}"),
        Row(
            "ids in the window",
            count(found.ids),
            f"{rate}/s * (1 - {traffic.duplicates:g}) * {window}",
        ),
        Row(
            "partitions, for speed",
            f"{found.partitions_for_speed:,}",
            f"{rate}/s * headroom {traffic.headroom:g} / {count(worker.messages_per_second)}/s of a worker",
        ),
        Row(
            "partitions, for rebuilds",
            f"{found.partitions_for_rebuild:,}",
            f"ids * {held_share():g} / ({count(worker.rebuild_per_second)}/s * {within})",
        ),
        Row("partitions", f"{found.partitions:,}", chosen),
        Row(
            "cores",
            f"{found.cores:,.2f}",
            f"{rate}/s * headroom {traffic.headroom:g} / {count(worker.messages_per_cpu_second)} a CPU second",
        ),
        Row("memory", size_text(found.memory_bytes), "partitions * memory of a worker"),
        Row("stores", size_text(found.stores_bytes), "partitions * store of a partition"),
        Row("volumes", size_text(found.volumes_bytes), "partitions * volume of a partition"),
    ]


def _partition_rows(traffic: Traffic, found: Size, measured: Measured) -> list[Row]:
    times = VOLUME_WITH_CHECKPOINT if traffic.snapshots else VOLUME
    checkpoint = ", with a checkpoint" if traffic.snapshots else ""
    return [
        Row(
            "a partition: ids",
            count(found.worker_ids),
            f"ids * {held_share():g} / partitions: {GENERATIONS} generations and the one to be dropped next",
        ),
        Row("a partition: cores", f"{found.worker_cores:.3f}", "cores / partitions"),
        Row(
            "a partition: memory",
            size_text(found.worker_memory_bytes),
            f"({size_text(measured.memory_base_bytes)} + {measured.memory_bytes_per_id:.2f} B * ids) * {MARGIN:g}",
        ),
        Row(
            "a partition: store",
            size_text(found.store_bytes),
            f"{measured.bytes_per_id:.1f} B * ids, of 16 B and an owner of 8 B",
        ),
        Row("a partition: window.maxBytes", size_text(found.max_bytes), f"store * {MARGIN:g}"),
        Row(
            "a partition: volume",
            size_text(found.volume_bytes),
            f"maxBytes * {times:g}{checkpoint}",
        ),
        Row(
            "a partition: start after a crash",
            duration(found.start_seconds),
            f"measured with {count(measured.ids)} ids",
        ),
        Row(
            "a partition: rebuild",
            duration(found.rebuild_seconds),
            f"ids / {count(speed(traffic.value_bytes, measured).rebuild_per_second)}/s, from the output topic",
        ),
    ]


def _kafka_rows(traffic: Traffic, found: Size) -> list[Row]:
    message = f"({traffic.id_bytes} + {traffic.value_bytes} + {RECORD_BYTES}) B"
    return [
        Row(
            "network in",
            f"{size_text(found.in_bytes_per_second)}/s",
            f"messages * {message}, not compressed",
        ),
        Row(
            "network out",
            f"{size_text(found.out_bytes_per_second)}/s",
            "network in, without duplicates; to one replica",
        ),
        Row(
            "output topic over the window",
            size_text(found.output_topic_bytes),
            "network out * window: input of a rebuild, one replica",
        ),
    ]


def _snapshot_rows(found: Size, measured: Measured) -> list[Row]:
    return [
        Row("snapshot, all partitions", size_text(found.stores_bytes), "stores; once in a bucket"),
        Row(
            "uploaded a day, at most",
            size_text(found.snapshot_new_bytes_per_day),
            f"new ids * {measured.bytes_per_id:.1f} B * {measured.write_amplification:.1f} written by RocksDB",
        ),
    ]


def count(number: float) -> str:
    """Format a number, with a word for its magnitude.

    >>> count(2.5), count(24_950.3), count(60.2e9), count(100_000_000)
    ('2.5', '24,950', '60.2 billion', '100 million')
    """
    for limit, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= limit:
            return f"{number / limit:.4g} {word}"
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def size_text(amount: float) -> str:
    """Format bytes in a binary unit.

    >>> size_text(1536), size_text(13 << 20), size_text(2.5 * 2**30)
    ('1.5 KiB', '13.0 MiB', '2.5 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            return f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:,.1f} PiB"


def duration(seconds: float) -> str:
    """Format a time in its largest unit.

    >>> duration(2.25), duration(90), duration(5400), duration(28 * 86400)
    ('2.2 s', '90 s', '90 min', '28 d')
    """
    for limit, length, unit in (
        (7200, 60, "min"),
        (172_800, 3600, "h"),
        (float("inf"), 86400, "d"),
    ):
        if seconds < 120:
            return f"{seconds:.2g} s" if seconds >= 10 else f"{seconds:.1f} s"
        if seconds < limit:
            return f"{seconds / length:.3g} {unit}"
    raise ValueError(f"{seconds} is no duration")
