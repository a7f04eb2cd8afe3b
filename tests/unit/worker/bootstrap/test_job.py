"""From files to a store that a worker takes for its own; interrupted anywhere, it comes to the same."""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from dedupe_crds.spec.topics import IdSource
from dedupe_ids.extract import pack_ids
from dedupe_kafka.errors import InvalidConfig
from dedupe_kafka.offsets import OffsetRange
from dedupe_worker.bootstrap.files import FileSource
from dedupe_worker.bootstrap.job import Job, Target
from dedupe_worker.bootstrap.progress import Step, Summary
from dedupe_worker.bootstrap.source import Columns
from dedupe_worker.errors import IdentityRefused, StateLocked
from dedupe_worker.recovery.tail import plan_catch_up
from dedupe_worker.store.ageing import Bounds
from dedupe_worker.store.rocksdb import Store
from dedupe_worker.store.state_dir import Identity, StateDirectory
from tests.unit.worker.stores import MIB, count_known, remember

SECOND_MS = 1_000
DAY_MS = 86_400 * SECOND_MS
BOUNDS = Bounds(max_bytes=64 * MIB, max_age=timedelta(days=28), generations=4)
POSITION = 17


class Interrupted(Exception):
    """Instead of a kill, which tests/component/local/test_bootstrap.py has."""


def now_ms() -> int:
    return int(time.time() * 1000)


def write_files(
    directory: Path, ages_ms: list[int], files: int = 1, partitions: int = 1
) -> list[str]:
    """Ids of these ages, in several files; returns the ids."""
    rng, now = Random(5), now_ms()
    ids = [str(UUID(int=rng.getrandbits(128))) for _ in ages_ms]
    directory.mkdir(exist_ok=True)
    lines = [
        f"{one},{now - age},{number % partitions}"
        for number, (one, age) in enumerate(zip(ids, ages_ms, strict=True))
    ]
    for number in range(files):
        text = "\n".join(["id,time,partition", *lines[number::files]])
        (directory / f"{number}.csv").write_text(text + "\n")
    return ids


def packed(ids: list[str]) -> bytes:
    return pack_ids([one.encode() for one in ids]).packed


def target(directory: Path, partition: int = 0, stream: str = "shop/orders") -> Target:
    identity = Identity(
        stream=stream, partition=partition, input_topic_id="in", output_topic_id="out"
    )
    state = StateDirectory(directory / f"state-{partition}")
    return Target(partition=partition, state=state, identity=identity, output_position=POSITION)


def bootstrap(
    directory: Path,
    *,
    partitions: int = 1,
    only: Sequence[int] = (),
    bounds: Bounds = BOUNDS,
    on_progress: Callable[[Step], None] = lambda _: None,
    **options: Any,  # noqa: ANN401 # the job's
) -> Summary:
    numbers = only or range(partitions)
    source = FileSource(
        directory / "files",
        stream="shop/orders",
        columns=Columns(),
        id_source=IdSource.model_validate({"from": "Key"}),
        wanted=frozenset(numbers),
        count=partitions,
        placement=None,
    )
    targets = [target(directory, partition) for partition in numbers]
    given = {"before_ms": None, "run_rows": 100, "range_rows": 512, **options}
    work = directory / "work"
    return Job(source, targets, bounds, work, on_progress=on_progress, **given).run()


def open_store(directory: Path, partition: int = 0, bounds: Bounds = BOUNDS) -> Store:
    database = target(directory, partition).state.database
    return Store(database, bounds, block_cache_bytes=8 * MIB)


def test_the_store_remembers_the_ids_and_goes_on_as_any_other(tmp_path: Path) -> None:
    ages = [n * DAY_MS // 50 for n in range(1_000)]
    ids = write_files(tmp_path / "files", ages)

    summary = bootstrap(tmp_path)

    assert summary.stores[0].ids == 1_000
    store = open_store(tmp_path)
    assert [g.name for g in store.generations()] == [
        *("b00000001", "b00000002", "b00000003", "b00000004", "g00000001")
    ]
    assert store.window_seconds(now_ms()) == pytest.approx(20 * 86_400, rel=0.01)
    assert count_known(store, packed(ids)) == 1_000
    new = Random(6).randbytes(16 * 500)
    assert remember(store, new + packed(ids[:10]), position=600, now_ms=now_ms()) == 10
    store.close()
    store = open_store(tmp_path)
    assert count_known(store, packed(ids) + new) == 1_500
    assert store.metadata is not None
    assert (store.metadata.output_position, store.metadata.truncated) == (600, False)
    assert store.generations()[0].first_seen_ms == pytest.approx(now_ms() - ages[-1], abs=DAY_MS)
    store.close()


def test_ids_of_the_past_are_as_old_as_they_are(tmp_path: Path) -> None:
    write_files(tmp_path / "files", [2 * DAY_MS] * 10)
    bootstrap(tmp_path)
    store = open_store(tmp_path)
    assert store.window_seconds(store.aged_ms) == pytest.approx(2 * 86_400, rel=0.01)
    store.close()


def test_a_worker_reads_all_of_the_output_that_came_after(tmp_path: Path) -> None:
    write_files(tmp_path / "files", [DAY_MS] * 10)
    bootstrap(tmp_path)
    store = open_store(tmp_path)
    identity = target(tmp_path).identity

    plan = plan_catch_up(
        store.metadata,
        recorded=target(tmp_path).state.recorded(identity.stream, 0),
        output_topic_id=identity.output_topic_id,
        output=OffsetRange(POSITION, 400),
        window_start=0,
    )

    assert (plan.start, plan.rebuild, plan.reason) == (POSITION, False, "Tail")
    store.close()


def test_ids_of_the_past_age_out_oldest_first(tmp_path: Path) -> None:
    ages = [n * DAY_MS // 50 for n in range(1_000)]  # of up to 20 days, 250 ids in each generation
    ids = write_files(tmp_path / "files", ages)
    bootstrap(tmp_path)
    store = open_store(tmp_path)
    remember(store, Random(6).randbytes(16), position=600, now_ms=now_ms())

    known = []
    for days in range(31):
        store.age(now_ms() + days * DAY_MS)
        known.append([count_known(store, packed(ids[n : n + 250])) for n in range(0, 1_000, 250)])
    store.close()

    assert known[0] == known[12] == [250, 250, 250, 250]
    assert known[14][3] < 10  # 28 days less the 15 of its newest; times are counted in coarse steps
    assert known[14][:3] == [250, 250, 250]
    assert known[24][1:] == [0, 0, 0] or sum(known[24][1:]) < 10
    assert known[24][0] == 250
    assert known[30] == [0, 0, 0, 0]


def test_what_the_window_does_not_hold_is_left_out_and_counted(tmp_path: Path) -> None:
    too_old, too_many, kept = 30, 200, 800
    ages = [n * 1000 for n in range(kept + too_many)] + [29 * DAY_MS] * too_old
    ids = write_files(tmp_path / "files", ages)
    bounds = Bounds(max_bytes=37 * kept, max_age=timedelta(days=28), generations=4)

    summary = bootstrap(tmp_path, bounds=bounds)

    assert (summary.too_old, summary.stores[0].left_out, summary.stores[0].ids) == (30, 200, 800)
    store = open_store(tmp_path)
    assert count_known(store, packed(ids[:kept])) == kept
    assert count_known(store, packed(ids[kept:])) == 0
    assert store.metadata is not None
    assert store.metadata.truncated
    store.close()


def test_ids_from_after_the_time_given_are_not_taken_and_the_future_is_now(tmp_path: Path) -> None:
    ids = write_files(tmp_path / "files", [10 * SECOND_MS] * 5 + [-DAY_MS] * 3 + [DAY_MS] * 4)
    summary = bootstrap(tmp_path, before_ms=now_ms() - 3600 * SECOND_MS)
    assert (summary.too_new, summary.stores[0].ids) == (8, 4)
    store = open_store(tmp_path)
    assert count_known(store, packed(ids)) == 4
    store.close()

    (tmp_path / "late").mkdir()
    write_files(tmp_path / "late" / "files", [-DAY_MS] * 3)
    bootstrap(tmp_path / "late")
    store = open_store(tmp_path / "late")
    assert store.generations()[0].keys == 3
    assert store.generations()[0].last_seen_ms <= now_ms()
    store.close()


def test_an_id_that_was_delivered_twice_is_one_with_its_later_time(tmp_path: Path) -> None:
    [one] = write_files(tmp_path / "files", [20 * DAY_MS])
    with (tmp_path / "files" / "0.csv").open("a") as file:
        file.write(f"{one},{now_ms() - DAY_MS},0\n")

    summary = bootstrap(tmp_path)

    assert (summary.stores[0].ids, summary.stores[0].repeated) == (1, 1)
    store = open_store(tmp_path)
    assert store.window_seconds(now_ms()) == pytest.approx(86_400, rel=0.01)
    store.close()


def contents(directory: Path, partitions: int) -> list[list[tuple[int, list[bytes]]]]:
    """The generations of each store, by number of ids, and the ids themselves."""
    found = []
    for partition in range(partitions):
        store = open_store(directory, partition)
        found.append([(g.keys, list(store.ids(g.name))) for g in store.generations()])
        store.close()
    return found


def interrupted_at(directory: Path, at: int) -> list[str] | None:
    """Run it until a step, of two partitions; returns what it did until then, None if it came to its end."""
    steps: list[str] = []

    def interrupt(step: Step) -> None:
        steps.append(step.action)
        if len(steps) == at:
            raise Interrupted

    try:
        bootstrap(directory, on_progress=interrupt, partitions=2)
    except Interrupted:
        return steps
    return None


def test_interrupted_at_each_step_it_goes_on_and_comes_to_the_same(tmp_path: Path) -> None:
    ages = [n * DAY_MS // 50 for n in range(600)]
    (tmp_path / "plain").mkdir()
    write_files(tmp_path / "plain" / "files", ages, files=6, partitions=2)
    bootstrap(tmp_path / "plain", partitions=2)
    expected = contents(tmp_path / "plain", 2)

    for at in count(1):
        directory = tmp_path / str(at)
        directory.mkdir()
        write_files(directory / "files", ages, files=6, partitions=2)
        before = interrupted_at(directory, at)
        if before is None:
            break
        after: list[Step] = []
        bootstrap(directory, partitions=2, on_progress=after.append)

        assert contents(directory, 2) == expected, at
        # Each run is one file of 100 ids, and none is read again.
        assert [*before, *(step.action for step in after)].count("reading") == 6, at
        assert not (directory / "work").exists()
    assert at > 15


def test_a_source_that_has_changed_is_read_anew(tmp_path: Path) -> None:
    write_files(tmp_path / "files", [DAY_MS] * 500, files=5)
    assert interrupted_at(tmp_path, 3)
    ids = write_files(tmp_path / "files", [2 * DAY_MS] * 400, files=5)

    summary = bootstrap(tmp_path, partitions=2)

    assert summary.restarted
    assert summary.stores[0].ids == 400
    store = open_store(tmp_path)
    assert count_known(store, packed(ids)) == 400
    store.close()


def test_done_again_it_says_so_and_leaves_the_store_as_it_is(tmp_path: Path) -> None:
    write_files(tmp_path / "files", [DAY_MS] * 50)
    bootstrap(tmp_path)
    store = open_store(tmp_path)
    remember(store, Random(6).randbytes(16 * 7), position=600, now_ms=now_ms())
    store.close()

    summary = bootstrap(tmp_path)

    assert summary.done_before
    assert summary.stores[0].ids == 50
    store = open_store(tmp_path)
    assert sum(g.keys for g in store.generations()) == 57
    store.close()


def test_partitions_can_be_filled_one_after_the_other(tmp_path: Path) -> None:
    ids = write_files(tmp_path / "files", [DAY_MS] * 200, partitions=2)
    first = bootstrap(tmp_path, partitions=2, only=[1])
    assert list(first.stores) == [1]
    assert not first.done_before

    both = bootstrap(tmp_path, partitions=2)

    assert [both.stores[number].ids for number in (0, 1)] == [100, 100]
    for number in (0, 1):
        store = open_store(tmp_path, number)
        assert count_known(store, packed(ids)) == 100
        store.close()


def test_a_directory_with_a_store_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path / "files", [DAY_MS] * 50)
    of_worker = target(tmp_path)
    of_worker.state.root.mkdir()
    of_worker.state.record(of_worker.identity)

    with pytest.raises(IdentityRefused, match=r"has a store already.*delete the directory"):
        bootstrap(tmp_path)


def test_a_directory_of_another_partition_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path / "files", [DAY_MS] * 50)
    state = target(tmp_path).state
    state.root.mkdir()
    state.record(target(tmp_path, 3).identity)

    with pytest.raises(IdentityRefused, match="belongs to shop/orders partition 3"):
        bootstrap(tmp_path)


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path / "files", [DAY_MS] * 50)
    with target(tmp_path).state.lock(), pytest.raises(StateLocked):
        bootstrap(tmp_path)


def test_no_ids_at_all_make_an_empty_store(tmp_path: Path) -> None:
    write_files(tmp_path / "files", [29 * DAY_MS] * 5)
    assert bootstrap(tmp_path).stores[0].ids == 0
    store = open_store(tmp_path)
    assert store.metadata is None
    store.close()


def test_more_ids_of_one_time_than_fit_are_refused(tmp_path: Path) -> None:
    write_files(tmp_path / "files", [DAY_MS] * 50)
    bounds = Bounds(max_bytes=37 * 20, max_age=timedelta(days=28), generations=4)
    with pytest.raises(InvalidConfig, match="raise maxBytes, or give finer times"):
        bootstrap(tmp_path, bounds=bounds)
