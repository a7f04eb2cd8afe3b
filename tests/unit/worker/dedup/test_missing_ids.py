"""Records without a usable id, counted by why and reported."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.spec.topics import IdSource
from dedupe_worker.dedup.missing_ids import MissingIds
from dedupe_worker.status import WorkerState
from tests.unit.crds.manifests import MINIMAL
from tests.unit.worker.still_clock import StillClock
from tests.unit.worker.strategies import message

HEADER = IdSource.model_validate({"from": "Header", "name": "Id"})
JSON = IdSource.model_validate({"from": "JsonPath", "path": "$.id"})


class WithHeaders:
    def __init__(self, offset: int, *names: str) -> None:
        self._offset = offset
        self._names = names

    def offset(self) -> int:
        return self._offset

    def headers(self) -> list[tuple[str, bytes]]:
        return [(name, b"v") for name in self._names]


class Unread:
    """Records that fail the test if one of them is asked for."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, at: int) -> None:
        pytest.fail(f"record {at} has an id, and was read again")


@pytest.fixture
def worker_state() -> WorkerState:
    return WorkerState(DedupeStream.model_validate(MINIMAL), 0, StillClock())


def count(
    counted: MissingIds, worker_state: WorkerState, records: Sequence[Any] | Unread, *with_id: int
) -> str:
    """Count a batch as the loop does; return the message of the degraded reason."""
    worker_state.tally.consumed += len(records)
    counted.count(records, np.array(with_id, np.intp))  # type: ignore[arg-type] # Unread has what is used
    return next((each.message for each in worker_state.degradations.current()), "")


def test_records_with_an_id_are_not_read(worker_state: WorkerState) -> None:
    assert count(MissingIds(JSON, worker_state), worker_state, Unread(), 0, 1, 2) == ""


def test_each_is_counted_by_why(worker_state: WorkerState) -> None:
    values = [b'{"id": 1}', b"text", b'{"id": 1.5}', None, b"text", b'{"ID": 1}']
    records = [message(7 + at, value=value) for at, value in enumerate(values)]
    said = count(MissingIds(JSON, worker_state), worker_state, records, 0)
    counts = worker_state.status().counts
    assert counts.without_id == 5
    assert counts.missing_ids == {"NotJson": 2, "WrongType": 1, "NoValue": 1, "PathAbsent": 1}
    assert said == (
        "records have no usable id by spec.id: they pass, and their repeats are not recognised (no value, first at "
        "offset 10; a value that is not JSON, first at offset 8; nothing at $.id, first at offset 12; neither text nor "
        "a whole number at $.id, first at offset 9)"
    )


def test_a_header_that_no_record_has_is_said_with_the_names_there_are(
    worker_state: WorkerState,
) -> None:
    counted = MissingIds(HEADER, worker_state)
    with capture_logs() as logged:
        said = count(counted, worker_state, [WithHeaders(0, "id", "a"), WithHeaders(1)])
    assert said == (
        "no record so far has a usable id by spec.id, so nothing is deduplicated: correct spec.id, or the producers; "
        "names of headers are case-sensitive (no header 'Id', first at offset 0, which has the headers 'a', 'id')"
    )
    assert [(each["log_level"], each["reason"]) for each in logged] == [("warning", "HeaderAbsent")]
    assert count(counted, worker_state, [WithHeaders(2, "Id")], 0) == said, "the last report stands"
    said = count(counted, worker_state, [WithHeaders(3, "b")])
    assert said.startswith("records have no usable id by spec.id: they pass")


def test_more_records_of_a_kind_do_not_change_the_message(worker_state: WorkerState) -> None:
    """On Kubernetes each new message is a write."""
    counted = MissingIds(HEADER, worker_state)
    first = count(counted, worker_state, [WithHeaders(0)])
    assert count(counted, worker_state, [WithHeaders(1, "x")]) == first
    assert "which has no headers" in first


def test_many_names_are_cut(worker_state: WorkerState) -> None:
    names = [f"h{number:02}" for number in range(12)]
    said = count(MissingIds(HEADER, worker_state), worker_state, [WithHeaders(0, *names)])
    assert "'h09' and 2 more" in said
    assert "h10" not in said
