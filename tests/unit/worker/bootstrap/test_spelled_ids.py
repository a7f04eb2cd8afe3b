"""An id in a file is the id of the records that it was taken from, in every spelling, or is refused by name."""

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet

from dedupe_crds.spec.topics import IdSource
from dedupe_ids.column_ids import IdType
from dedupe_ids.extract import extractor_for, packed_meanings
from dedupe_kafka.errors import InvalidConfig
from dedupe_worker.bootstrap.files import FileSource
from dedupe_worker.bootstrap.source import Columns
from dedupe_worker.store.external_sort import id_bytes
from tests.support.checker.record import Message
from tests.support.spelled_ids import JSON, SOURCES, SPELLINGS, Spelling
from tests.unit.worker.strategies import FakeRecord


def packed_by_worker(record: Message, source: IdSource) -> bytes:
    found: Any = FakeRecord(record.key, record.value, list(record.headers) or None)
    return extractor_for(source)([found]).packed


def imported(path: Path, source: IdSource, told: IdType | None) -> list[bytes]:
    files = FileSource(
        path,
        stream="shop/orders",
        columns=Columns(id_type=told),
        id_source=source,
        wanted=frozenset({0}),
        count=1,
        placement=None,
    )
    return [packed for batch in files.batches(None) for packed in id_bytes(batch.entries["id"])]


def written(directory: Path, spelling: Spelling) -> Path:
    if isinstance(spelling.kind, str):
        path = directory / "ids.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("id", "time"), (spelling.cell, 1)])
        return path
    path = directory / "ids.parquet"
    ids = pa.array([spelling.cell], spelling.kind)
    parquet.write_table(pa.table({"id": ids, "time": [1]}), path)
    return path


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.from_)
@pytest.mark.parametrize("spelling", SPELLINGS, ids=str)
def test_an_imported_id_is_that_of_the_record_or_is_refused(
    tmp_path: Path, spelling: Spelling, source: IdSource
) -> None:
    path, record = written(tmp_path, spelling), spelling.record(source)

    if record is None:
        with pytest.raises(InvalidConfig):
            imported(path, source, spelling.told)
        return
    expected = packed_by_worker(record, source)
    assert len(expected) == 16
    assert imported(path, source, spelling.told) == [expected]
    text = record.key if source.from_ == "Key" else dict(record.headers).get("id")
    text = str(spelling.in_json).encode() if source is JSON else text
    assert text is not None
    assert expected in packed_meanings(text, source), "lookup and forget find it"


@pytest.mark.parametrize(
    ("lines", "told", "expected"),
    [
        (
            "17",
            None,
            r"the id '17' may be the text '17' or the number 17.*add --id-type text or .*\$\.id",
        ),
        ("007", IdType.NUMBER, r"the id '007' is not a whole number of 64 bits.*--id-type text"),
    ],
)
def test_a_refusal_names_the_file_the_id_and_the_remedy(
    tmp_path: Path, lines: str, told: IdType | None, expected: str
) -> None:
    path = tmp_path / "ids.csv"
    path.write_text(f"id,time\na,1\n{lines},2\n" if told is None else f"id,time\n1,1\n{lines},2\n")

    with pytest.raises(InvalidConfig, match=expected) as refused:
        imported(path, JSON, told)

    assert str(path) in str(refused.value)


@given(st.text(min_size=1).filter(lambda text: text.isprintable()) | st.integers())
@example(str(2**64))
@example("-0")
def test_a_csv_without_the_option_is_never_read_as_other_ids(
    tmp_path_factory: pytest.TempPathFactory, cell: str | int
) -> None:
    """It is refused exactly if JSON can have the digits as a number too."""
    spelling = Spelling(kind="csv", cell=str(cell))
    path = written(tmp_path_factory.mktemp("spelled"), spelling)
    number = packed_by_worker(
        Message(partition=0, key=None, value=b'{"id": %s}' % str(cell).encode()), JSON
    )
    text = Spelling(kind="csv", cell=cell, in_json=str(cell)).record(JSON)
    assert text is not None

    try:
        found = imported(path, JSON, None)
    except InvalidConfig:
        assert number
        assert imported(path, JSON, IdType.NUMBER) == [number]
        found = imported(path, JSON, IdType.TEXT)
    assert found == [packed_by_worker(text, JSON)]
