"""The content of the golden stores, and their writers.

The expected bytes of ids and values are spelled out here from the descriptions of the formats, without the code that
is tested.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final
from uuid import UUID
from zlib import crc32

import numpy as np
from confluent_kafka import Message

from dedupe_crds.spec.topics import IdSource
from dedupe_ids.extract import extractor_for
from dedupe_worker.bootstrap.job import Job, Target
from dedupe_worker.bootstrap.progress import Step
from dedupe_worker.bootstrap.source import Batch, seen_entries
from dedupe_worker.dedup.classify import Classifier
from dedupe_worker.dedup.policy import Policy
from dedupe_worker.dedup.window import Window
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.inverse_bloom.store import InverseBloomStore
from dedupe_worker.store.rocksdb import Store
from dedupe_worker.store.state_dir import Identity, StateDirectory

PARTITION: Final = 3
IDENTITY: Final = Identity(
    stream="default/orders",
    partition=PARTITION,
    input_topic_id="aW5wdXQtdG9waWMtLS1pZA",
    output_topic_id="b3V0cHV0LXRvcGljLS0taWQ",
    id_source='{"from":"Key"}',
)
BOUNDS: Final = Bounds(max_bytes=1 << 20, max_age=timedelta(days=28), generations=4)
PLAIN: Final = Policy()
ROUTING: Final = Policy(
    duplicates_topic="orders-again",
    conflicts_topic="orders-odd",
    late_topic="orders-late",
)

DAY_MS: Final = 86_400_000
START_MS: Final = 1_759_276_800_000  # 2025-10-01
GENERATIONS: Final = (range(300), range(300, 500), range(500, 600))
"""Numbers of the orders in each generation of the stores."""
CHECKPOINT_TIME: Final = datetime(2025, 10, 9, 1, 2, 3, 456789, tzinfo=UTC)
FORGOTTEN_MS: Final = START_MS - 3_600_000

FIRST_OFFSET: Final = 70_000
TABLE_SLOTS: Final = (1024, 1100)
TABLE_ORDERS: Final = (range(150), range(150, 300))
BOOTSTRAP_ORDERS: Final = 1_500
BOOTSTRAP_POSITION: Final = 17


# -- records, and what a store remembers of them ---------------------------------------------------


def seen_ms(generation: int) -> int:
    """Return when the orders of a generation were seen."""
    return START_MS + 8 * generation * DAY_MS


def raw_id(number: int) -> bytes:
    """Return an order's id: text, or for each hundredth order a UUID."""
    return str(uuid(number)).encode() if number % 100 == 0 else b"order-%d" % number


def uuid(number: int) -> UUID:
    return UUID(int=(number + 1) << 72 | 0xABCDEF)


def packed_id(number: int) -> bytes:
    """Return the 16 bytes by which a store knows an order."""
    if number % 100 == 0:
        return uuid(number).bytes
    return blake2b(raw_id(number), digest_size=16).digest()


def time_ms(number: int) -> int:
    """Return the timestamp of an order's record."""
    generation = next(g for g, numbers in enumerate(GENERATIONS) if number in numbers)
    return seen_ms(generation) - 1_000 + number


def record(
    number: int,
    *,
    offset: int | None = None,
    value: bytes | None = None,
    timestamp_ms: int | None = None,
) -> Message:
    """Return the record of an order, or a later one with its id."""
    return Message(
        topic="orders",
        partition=PARTITION,
        offset=FIRST_OFFSET + number if offset is None else offset,
        key=raw_id(number),
        value=content(number) if value is None else value,
        timestamp=(1, time_ms(number) if timestamp_ms is None else timestamp_ms),
    )


def content(number: int) -> bytes:
    return b'{"order":%d,"country":"%s"}' % (number, (b"DE", b"FR", b"AT")[number % 3])


def stored_value(number: int, *, timed: bool = False, hashed: bool = False) -> bytes:
    """Return what a store remembers of an order."""
    value = PARTITION.to_bytes(2, "big") + (FIRST_OFFSET + number).to_bytes(6, "big")
    if timed:
        value += time_ms(number).to_bytes(6, "big")
    if hashed:
        key = raw_id(number)
        shape = ((len(key) + 1) << 1) * 0x9E3779B1 & 0xFFFFFFFF
        value += crc32(content(number), crc32(key, shape)).to_bytes(4, "big")
    return value


# -- stores ----------------------------------------------------------------------------------------


def open_store(path: Path) -> Store:
    return Store(path, BOUNDS, block_cache_bytes=1 << 20)


def open_table(path: Path, slots: int, value_bytes: int) -> InverseBloomStore:
    return InverseBloomStore(path, BOUNDS, slots=slots, value_bytes=value_bytes)


def make_classifier(store: IdStore, policy: Policy) -> tuple[Window, Classifier]:
    window = Window(store, policy.layout.dtype)
    extract = extractor_for(IdSource.model_validate({"from": "Key"}))
    return window, Classifier(policy, partition=PARTITION, window=window, extract=extract)


def remember(store: IdStore, policy: Policy, numbers: Sequence[int], now_ms: int) -> None:
    """Write orders to a store as the loop does, in one transaction."""
    window, classifier = make_classifier(store, policy)
    records = [record(number) for number in numbers]
    batch = classifier.identify(records)
    verdict = classifier.classify(records, batch, now_ms)
    assert verdict.passed.all()
    window.commit(
        output_position=numbers[-1] + 1,
        input_offset=FIRST_OFFSET + numbers[-1] + 1,
        seen_ms=now_ms,
        newest_ms=batch.newest_ms,
    )


def write_generation(store: Store, policy: Policy, number: int) -> None:
    """Begin the generation of this number (from 0) and write its orders."""
    store.age(seen_ms(number))
    remember(store, policy, GENERATIONS[number], seen_ms(number))
    assert len(store.generations()) == number + 1


def write_tables(path: Path) -> None:
    """Write a table of owners, and after it a wider one of more slots."""
    for slots, policy, numbers in zip(TABLE_SLOTS, (PLAIN, ROUTING), TABLE_ORDERS, strict=True):
        store = open_table(path, slots, policy.layout.dtype.itemsize)
        remember(store, policy, numbers, seen_ms(0))
        store.close()


# -- a bootstrap -----------------------------------------------------------------------------------


class Orders:
    """A source of past ids: all orders, in batches of 100, ten minutes between two of them."""

    fingerprint: Any = {"files": "the golden orders"}  # noqa: RUF012 (the protocol has no ClassVar)
    total = BOOTSTRAP_ORDERS

    def batches(self, position: Any | None) -> Iterator[Batch]:  # noqa: ANN401 (JSON)
        for first in range(position or 0, self.total, 100):
            numbers = range(first, first + 100)
            seen = np.array([bootstrap_seen_ms(number) for number in numbers])
            packed = b"".join(map(packed_id, numbers))
            partitions = np.full(100, PARTITION)
            yield Batch(seen_entries(packed, seen), partitions, 0, first + 100, first + 100)


def bootstrap_seen_ms(number: int) -> int:
    return START_MS + number * 600_000


class Interrupted(Exception):
    """Ends a bootstrap as a kill does."""


def interrupt(step: Step) -> None:
    """End the bootstrap when one of its ranges is written and noted."""
    if step.action.startswith("writing") and step.done == 1:
        raise Interrupted


def make_bootstrap(root: Path, *, interrupted: bool = False) -> Job:
    """Return a bootstrap from the orders to the state directory below `root`."""
    target = Target(
        partition=PARTITION,
        state=StateDirectory(root / "state"),
        identity=IDENTITY,
        output_position=BOOTSTRAP_POSITION,
    )
    bounds = Bounds(max_bytes=1 << 26, max_age=timedelta(days=3650), generations=3)
    return Job(
        Orders(),
        [target],
        bounds,
        root / "work",
        before_ms=None,
        on_progress=interrupt if interrupted else lambda _: None,
        run_rows=700,
        range_rows=512,
    )
