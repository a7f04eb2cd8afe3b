"""An output takes only batches of its own checkpoint and topic, and each as it is recorded."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from dedupe_kafka.offsets import OffsetRange
from dedupe_pipeline.errors import LandingRefused
from dedupe_pipeline.jobs.land.output_log import (
    BatchRecord,
    admit_batch,
    check_output,
    recorded_batch,
    write_marker,
)

TOPIC = "clean"
ID = "AAAAAAAAQACAAAAAAAAAAg"
BATCH = BatchRecord(topic_id=ID, offsets={0: OffsetRange(0, 10), 1: OffsetRange(5, 9)})


@pytest.fixture
def output(tmp_path: Path) -> Path:
    (tmp_path / "output").mkdir()
    return tmp_path / "output"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint that Spark has begun, with one batch committed."""
    directory = tmp_path / "checkpoint"
    (directory / "commits").mkdir(parents=True)
    (directory / "metadata").write_text(json.dumps({"id": "query-1"}))
    (directory / "commits" / "0").touch()
    return directory


def test_a_marked_output_goes_on_with_its_own_checkpoint(output: Path, checkpoint: Path) -> None:
    write_marker(output, checkpoint, TOPIC, ID)
    admit_batch(output, checkpoint, output, 0, BATCH)

    check_output(output, checkpoint, TOPIC, ID)


def test_an_empty_output_starts_with_a_new_checkpoint(output: Path, tmp_path: Path) -> None:
    check_output(output, tmp_path / "new", TOPIC, ID)


def test_an_output_without_its_checkpoint_is_refused(
    output: Path, checkpoint: Path, tmp_path: Path
) -> None:
    write_marker(output, checkpoint, TOPIC, ID)

    with pytest.raises(LandingRefused, match="another checkpoint"):
        check_output(output, tmp_path / "new", TOPIC, ID)


def test_a_checkpoint_without_its_output_is_refused(output: Path, checkpoint: Path) -> None:
    with pytest.raises(LandingRefused, match="bring the output back"):
        check_output(output, checkpoint, TOPIC, ID)


def test_an_output_of_another_topic_is_refused(output: Path, checkpoint: Path) -> None:
    write_marker(output, checkpoint, TOPIC, ID)

    with pytest.raises(LandingRefused, match="holds topic 'clean', not 'other'"):
        check_output(output, checkpoint, "other", ID)


def test_directories_of_somebody_else_are_not_added_to(output: Path, tmp_path: Path) -> None:
    (output / "date=2026-11-20").mkdir()

    with pytest.raises(LandingRefused, match="not landed here"):
        check_output(output, tmp_path / "new", TOPIC, ID)


def test_a_checkpoint_of_which_nothing_has_landed_is_planned_again(
    output: Path, checkpoint: Path
) -> None:
    """Its plan may be of an earlier topic of this name."""
    (checkpoint / "commits" / "0").unlink()

    check_output(output, checkpoint, TOPIC, ID)

    assert not checkpoint.exists()


def test_a_topic_that_was_created_again_is_refused(output: Path, checkpoint: Path) -> None:
    write_marker(output, checkpoint, TOPIC, ID)
    admit_batch(output, checkpoint, output, 0, BATCH)

    with pytest.raises(LandingRefused, match=f"created again .* was {ID} and is other"):
        check_output(output, checkpoint, TOPIC, "other")


def test_a_topic_that_was_created_again_is_refused_by_an_output_of_an_earlier_release(
    output: Path, checkpoint: Path
) -> None:
    """Its first recorded batch tells the topic."""
    (output / ".landing.json").write_text(json.dumps({"query": "query-1", "topic": TOPIC}))
    check_output(output, checkpoint, TOPIC, "any")
    admit_batch(output, checkpoint, output, 9, BATCH)
    admit_batch(output, checkpoint, output, 10, BATCH)

    check_output(output, checkpoint, TOPIC, ID)
    with pytest.raises(LandingRefused, match="created again"):
        check_output(output, checkpoint, TOPIC, "other")


def test_an_output_that_is_older_than_its_checkpoint_is_refused(
    output: Path, checkpoint: Path
) -> None:
    write_marker(output, checkpoint, TOPIC, ID)
    admit_batch(output, checkpoint, output, 0, BATCH)
    (checkpoint / "commits" / "1").touch()

    with pytest.raises(LandingRefused, match=r"up to 1, and .* does not contain that one"):
        check_output(output, checkpoint, TOPIC, ID)


def test_a_batch_is_repeated_as_it_is_recorded(output: Path, checkpoint: Path) -> None:
    for _ in range(2):
        admit_batch(output, checkpoint, output, 7, BATCH)

    assert recorded_batch(output, 7) == BATCH


@pytest.mark.parametrize(
    ("planned", "named"),
    [
        (
            BatchRecord(topic_id=ID, offsets={**BATCH.offsets, 1: OffsetRange(5, 12)}),
            "5 to before 9 of partition 1; .* 5 to before 12 of partition 1",
        ),
        (BatchRecord(topic_id="other", offsets=BATCH.offsets), f"topic {ID}; .* topic other"),
        (
            BatchRecord(topic_id=ID, offsets={**BATCH.offsets, 2: OffsetRange(0, 1)}),
            "0 to before 1 of partition 2",
        ),
    ],
    ids=["offsets", "topic", "partition"],
)
def test_another_batch_of_the_same_number_is_refused(
    output: Path, checkpoint: Path, planned: BatchRecord, named: str
) -> None:
    admit_batch(output, checkpoint, output, 7, BATCH)

    with pytest.raises(LandingRefused, match=f"batch 7 in .* is of .*{named}.*newest checkpoint"):
        admit_batch(output, checkpoint, output, 7, planned)
    assert recorded_batch(output, 7) == BATCH


def test_the_records_of_the_last_100_batches_are_kept(output: Path, checkpoint: Path) -> None:
    """They are as many as Spark keeps plans of, and only a plan can ask for a record."""
    write_marker(output, checkpoint, TOPIC, ID)
    for batch in range(150):
        admit_batch(output, checkpoint, output, batch, BATCH)

    kept = sorted(int(path.stem) for path in (output / ".batches").iterdir())
    assert kept == list(range(50, 150))


def test_a_batch_from_before_the_records_is_refused(output: Path, checkpoint: Path) -> None:
    """Its directories may be deleted by now, so that it would land again."""
    write_marker(output, checkpoint, TOPIC, ID)
    for batch in range(150):
        admit_batch(output, checkpoint, output, batch, BATCH)

    check_output(output, checkpoint, TOPIC, ID)  # after batch 0: the output contains it
    with pytest.raises(LandingRefused, match=r"up to 149 and no longer .* batch 1,.*newest check"):
        admit_batch(output, checkpoint, output, 1, BATCH)
    assert recorded_batch(output, 1) is None
    admit_batch(output, checkpoint, output, 50, BATCH)


def rows(directory: Path, *offsets: int) -> None:
    directory.mkdir(parents=True)
    table = pa.table({"partition": [0] * len(offsets), "offset": list(offsets)})
    parquet.write_table(table, directory / "part-0.parquet")


@pytest.mark.parametrize(
    ("staged", "is_same"),
    [
        ({"20": (2, 1)}, True),
        ({"20": (1, 3)}, False),
        ({"20": (1,)}, False),
        ({"21": (1, 2)}, False),
    ],
    ids=["the same", "other records", "fewer records", "another date"],
)
def test_a_batch_of_an_earlier_release_is_compared_record_by_record(
    tmp_path: Path,
    output: Path,
    checkpoint: Path,
    staged: dict[str, tuple[int, ...]],
    is_same: bool,
) -> None:
    rows(output / "date=2026-11-20" / "batch=7", 1, 2)
    staging = tmp_path / "staging"
    for day, offsets in staged.items():
        rows(staging / f"date=2026-11-{day}", *offsets)

    if is_same:
        admit_batch(output, checkpoint, staging, 7, BATCH)
    else:
        with pytest.raises(LandingRefused, match="has other records than batch 7"):
            admit_batch(output, checkpoint, staging, 7, BATCH)
    assert (recorded_batch(output, 7) == BATCH) == is_same
