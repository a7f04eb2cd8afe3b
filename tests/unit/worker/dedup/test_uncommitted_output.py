"""Reading the ids of uncommitted output gets on visibly."""

from threading import Event
from typing import Any, cast

from dedupe_crds.spec.topics import IdSource
from dedupe_ids.extract import extractor_for
from dedupe_worker.dedup.uncommitted_output import read_ids
from dedupe_worker.kafka.consumer import Batch, PartitionReader
from tests.unit.worker.strategies import message


class OutputReader:
    """A partition of ten records, read one by one."""

    def __init__(self) -> None:
        self._position = 0

    def seek(self, offset: int) -> None:
        self._position = offset

    def read(self, _max_records: int, _wait_seconds: float) -> Batch:
        self._position += 1
        record: Any = message(self._position - 1, b"%d" % self._position, b"")
        return Batch([record], self._position, 0)

    def check(self, _end: int) -> None: ...

    def close(self) -> None: ...


def test_each_batch_is_reported() -> None:
    reports: list[None] = []
    found = read_ids(
        lambda: cast("PartitionReader", OutputReader()),
        extractor_for(IdSource.model_validate({"from": "Key"})),
        start=0,
        end=10,
        stop=Event(),
        on_read=lambda: reports.append(None),
    )
    assert len(list(found)) == 10
    assert len(reports) == 10
