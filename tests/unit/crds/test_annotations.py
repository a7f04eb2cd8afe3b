import json
from typing import Any

import pytest

from dedupe_crds.annotations import (
    BEST_AVAILABLE,
    OUTPUT_TOPIC,
    RECONCILE,
    RESTORE,
    ReconcileRequest,
    RestoreRequest,
    pending_restore,
    reconcile_request,
    restore_requests,
    restores_text,
)

RECONCILES = [
    ReconcileRequest(request="r"),
    ReconcileRequest(request="2026-11-21T18:00:00Z", partitions=[0, 3], full=True),
]
RESTORES = [
    RestoreRequest(request="r", partition=0, source=OUTPUT_TOPIC),
    RestoreRequest(request="r", partition=65535, source="orders-20261121-180000"),
    RestoreRequest(request="r", partition=1, source=BEST_AVAILABLE),
]


@pytest.mark.parametrize("request_", RECONCILES, ids=str)
def test_a_reconcile_is_read_as_it_was_written(request_: ReconcileRequest) -> None:
    annotations = {RECONCILE: request_.model_dump_json(by_alias=True), "other": "x"}
    assert reconcile_request(annotations) == request_
    assert restore_requests(annotations) == []


@pytest.mark.parametrize("request_", RESTORES, ids=str)
def test_a_restore_is_read_as_it_was_written(request_: RestoreRequest) -> None:
    annotations = {RESTORE: request_.model_dump_json(by_alias=True)}
    assert restore_requests(annotations) == [request_]
    assert restores_text([request_]) == json.dumps(json.loads(annotations[RESTORE]))
    assert reconcile_request(annotations) is None


def test_several_restores_are_read_in_order_as_they_were_written() -> None:
    assert restore_requests({RESTORE: restores_text(RESTORES)}) == RESTORES
    assert restore_requests({RESTORE: restores_text([])}) == []


def test_one_that_is_mistyped_leaves_the_others() -> None:
    good = {"request": "r", "partition": 0, "source": OUTPUT_TOPIC}
    text = json.dumps([good, "x", good | {"partition": -1}, good | {"partition": 1}])
    assert [each.partition for each in restore_requests({RESTORE: text})] == [0, 1]


def asked(request: str, partition: int = 0) -> RestoreRequest:
    return RestoreRequest(request=request, partition=partition, source=OUTPUT_TOPIC)


def test_the_next_request_of_a_partition_follows_its_last_answered_one() -> None:
    queue = [asked("a"), asked("b"), asked("a", 1), asked("c")]
    assert pending_restore(queue, 0, {None}) == asked("a")
    assert pending_restore(queue, 0, {"a"}) == asked("b")
    assert pending_restore(queue, 0, {"b"}) == asked("c")
    assert pending_restore(queue, 0, {"c", "a"}) is None
    assert pending_restore(queue, 1, {"c"}) == asked("a", 1)
    assert pending_restore(queue, 2, ()) is None


def test_a_request_names_a_snapshot_or_leaves_the_choice() -> None:
    assert [each.snapshot for each in RESTORES] == [None, "orders-20261121-180000", None]


def test_without_annotations_nothing_is_asked_for() -> None:
    assert reconcile_request({}) is None
    assert restore_requests({}) == []


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
    assert len(restore_requests({RESTORE: json.dumps(good)})) == 1
    assert restore_requests({RESTORE: json.dumps(good | change)}) == []


@pytest.mark.parametrize(
    "text", ["", "now", "[]", "[" * 100_000, '{"request": "r", "partitions": [true]}', "{}"]
)
def test_what_is_no_json_of_this_shape_is_no_request(text: str) -> None:
    assert reconcile_request({RECONCILE: text}) is None
    assert restore_requests({RESTORE: text}) == []
