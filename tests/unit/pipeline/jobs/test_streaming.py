"""What a run takes from Spark's log, and what it says is left."""

from pathlib import Path

from dedupe_kafka.offsets import OffsetRange
from dedupe_pipeline.jobs.streaming import committed_ends, describe_left, planned_ends


def log_of(checkpoint: Path, batch: int, ends: str) -> None:
    (checkpoint / "offsets").mkdir(exist_ok=True)
    (checkpoint / f"offsets/{batch}").write_text(f'v1\n{{"conf": {{}}}}\n{{"flights":{ends}}}')


def test_the_ends_of_a_batch_are_those_that_spark_has_logged(tmp_path: Path) -> None:
    log_of(tmp_path, 3, '{"0":7,"1":9}')

    assert planned_ends(tmp_path, 3) == {0: 7, 1: 9}


def test_what_is_done_is_that_of_the_last_batch_with_a_commit(tmp_path: Path) -> None:
    assert committed_ends(tmp_path) == {}
    for batch in (9, 10, 11):
        log_of(tmp_path, batch, f'{{"0":{batch}}}')
    (tmp_path / "commits").mkdir()
    for name in ("9", "10", ".10.crc"):
        (tmp_path / "commits" / name).touch()

    assert committed_ends(tmp_path) == {0: 10}


def test_of_many_partitions_some_are_named() -> None:
    left = {partition: OffsetRange(1, 3) for partition in range(10)}

    assert describe_left(left).endswith("1 to 2 of partition 7 and 2 more")
