import json
from typing import Any

import pytest

from dedupe_crds.annotations import (
    OUTPUT_TOPIC,
    RECONCILE,
    RESTORE,
    ReconcileRequest,
    RestoreRequest,
    reconcile_request,
    restore_request,
)

RECONCILES = [
    ReconcileRequest(request="r"),
    ReconcileRequest(request="2026-11-21T18:00:00Z", partitions=[0, 3], full=True),
]
RESTORES = [
    RestoreRequest(request="r", partition=0, source=OUTPUT_TOPIC),
    RestoreRequest(request="r", partition=65535, source="orders-20261121-180000"),
]


@pytest.mark.parametrize("request_", RECONCILES, ids=str)
def test_a_reconcile_is_read_as_it_was_written(request_: ReconcileRequest) -> None:
    annotations = {RECONCILE: request_.model_dump_json(by_alias=True), "other": "x"}
    assert reconcile_request(annotations) == request_
    assert restore_request(annotations) is None


@pytest.mark.parametrize("request_", RESTORES, ids=str)
def test_a_restore_is_read_as_it_was_written(request_: RestoreRequest) -> None:
    annotations = {RESTORE: request_.model_dump_json(by_alias=True)}
    assert restore_request(annotations) == request_
    assert reconcile_request(annotations) is None


def test_without_annotations_nothing_is_asked_for() -> None:
    assert reconcile_request({}) is None
    assert restore_request({}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"request": ""},
        {"request": "a" * 101},
        {"request": None},
        {"partition": -1},
        {"partition": "0"},
        {"partition": 65536},
        {"source": "Snap_1"},
        {"source": ""},
        {"source": "outputtopic!"},
        {"force": True},
    ],
    ids=str,
)
def test_what_somebody_mistyped_is_no_request(change: dict[str, Any]) -> None:
    good = {"request": "r", "partition": 0, "source": OUTPUT_TOPIC}
    assert restore_request({RESTORE: json.dumps(good)}) is not None
    assert restore_request({RESTORE: json.dumps(good | change)}) is None


@pytest.mark.parametrize("text", ["", "now", "[]", '{"request": "r", "partitions": [true]}', "{}"])
def test_what_is_no_json_of_this_shape_is_no_request(text: str) -> None:
    assert reconcile_request({RECONCILE: text}) is None
