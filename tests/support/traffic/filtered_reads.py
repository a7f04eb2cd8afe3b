"""Read a topic with filters, index it, and judge its filters."""

from collections.abc import Sequence
from pathlib import Path

from click.testing import CliRunner

from dedupe_filters.bloom import may_contain
from dedupe_filters.reader import FilteredReader, ReadStatistics
from dedupe_filters.wire_format import decode
from dedupe_local.cli import main
from tests.support.checker.id_sources import header_id
from tests.support.checker.record import Record
from tests.support.traffic.chunks import HEADER, as_records
from tests.support.traffic.streams import stream_manifest


def read(
    servers: str,
    topic: str,
    values: Sequence[bytes] | None,
    *,
    unfiltered: bool = False,
    **more: object,
) -> tuple[list[Record], ReadStatistics]:
    with FilteredReader(
        servers,
        topic,
        values=values,
        match_unfiltered=unfiltered,
        **{"header": HEADER, **more},  # type: ignore[arg-type] # of several kinds
    ) as reader:
        records = as_records(reader)
        return records, reader.statistics


def manifest(directory: Path, servers: str, topic: str, **filter_spec: object) -> Path:
    """Write a manifest whose output is the topic."""
    output = {"topic": topic, "filter": filter_spec or {"from": "Header", "name": HEADER}}
    return stream_manifest(directory, servers, f"{topic}-raw", topic, output=output).manifest


def index(directory: Path, servers: str, topic: str, **filter_spec: object) -> str:
    """Run `dedupe index-filters` at the manifest's cluster, and return its output."""
    arguments = ["index-filters", str(manifest(directory, servers, topic, **filter_spec))]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def assert_true(filter_record: Record, everything: list[Record]) -> None:
    """Assert that a filter is true for every record in its range."""
    chunk = decode(filter_record.value)
    assert chunk is not None
    values = [
        header_id(HEADER)(record)
        for record in everything
        if chunk.first_offset <= record.offset <= chunk.last_offset
    ]
    assert chunk.records == len(values)
    assert chunk.unfiltered == (None in values)
    assert all(may_contain(chunk.bloom, value) for value in values if isinstance(value, bytes))
