"""The lines of the plugin about a growth."""

import io
import json
from typing import Any

import pytest
from rich.console import Console

from dedupe_kubectl.commands.describe_problem import lines
from dedupe_kubectl.diagnosis import Facts, Problem, find
from dedupe_kubectl.objects import Object, read_stream
from dedupe_kubectl.tables import as_json, render_stream, view_json
from tests.unit.kubectl.documents import NOW, READY, condition, partition, stream, view

LINE = "Growth from 2 to 4 partitions: Learning, 1 of 2, waiting for 3."
GROWTH = {
    "epoch": 1,
    "addsRouters": False,
    "before": 2,
    "partitions": 4,
    "step": "Learning",
    "done": 1,
    "total": 2,
    "waitingFor": ["3"],
}
ROUTERS = {"replicas": 2, "ready": 2}
HEALTHY = [partition(0), partition(1), partition(2), partition(3, "Reconciling")]


def growing(
    reason: str = "Learning",
    message: str = LINE,
    partitions: list[Object] | None = None,
    **growth: Any,  # noqa: ANN401
) -> Object:
    return stream(
        conditions=[*READY, condition("Growing", "True", reason, message)],
        partitions=partitions or HEALTHY,
        status={"growth": {**GROWTH, **growth}, "routers": ROUTERS},
    )


def found(document: Object) -> list[Problem]:
    return find(Facts(view=view(document), now=NOW, operators=()))


def test_status_shows_it_as_a_line_and_as_json() -> None:
    seen = view(growing())
    output = io.StringIO()
    Console(file=output, width=300).print(render_stream(seen, [], NOW))
    assert LINE in output.getvalue()
    document = json.loads(as_json(view_json(seen, [])))
    assert document["growth"] == GROWTH


def test_one_that_is_done_is_no_line() -> None:
    document = stream(
        conditions=[*READY, condition("Growing", "False", "NotGrowing")],
        status={"growth": {**GROWTH, "step": "Done"}},
    )
    output = io.StringIO()
    Console(file=output, width=300).print(render_stream(view(document), [], NOW))
    assert "Growth" not in output.getvalue()


def test_one_that_takes_its_time_is_no_problem_and_is_mentioned() -> None:
    assert found(growing()) == []
    assert lines(read_stream(growing()), []) == [f"shop/orders: nothing is wrong; {LINE}"]


def test_the_error_of_the_controller_is_what_holds_it_up() -> None:
    message = f"{LINE} It waits: an ACL is missing"
    (problem,) = found(growing("NotAuthorized", message))
    assert problem.what == "The growth to more partitions is held up"
    assert problem.why == f"NotAuthorized: {message}"


@pytest.mark.parametrize("step", ["Learning", "WaitingForWorkers", "ReadingRest"])
def test_a_partition_that_does_not_run_holds_it_up(step: str) -> None:
    broken = [*HEALTHY[:3], partition(3, "Failed", message="no node can run the pod")]
    first, second = found(growing(step, partitions=broken, step=step))
    assert first.why == f"{step} waits for 3: partition 3 is not ready (Failed)"
    assert second.why == "no node can run the pod"


def test_a_partition_without_a_worker_holds_it_up() -> None:
    (problem,) = found(growing(partitions=HEALTHY[:3]))
    assert problem.why == "Learning waits for 3: partition 3 has no worker yet"


def test_routers_that_do_not_run_hold_it_up() -> None:
    document = growing("WaitingForRouters", step="WaitingForRouters", waitingFor=["raw/0"])
    assert found(document) == []
    document["status"]["routers"] = {"replicas": 2, "ready": 1}
    (problem,) = found(document)
    assert problem.why == "WaitingForRouters waits for raw/0: 1 of 2 routers are ready"


CHANGE = "Change to routers from 2 to 4 partitions: HandingOver, 1 of 2, waiting for 1."


def changing(partitions: list[Object]) -> Object:
    return growing(
        "HandingOver", CHANGE, partitions, step="HandingOver", waitingFor=["1"], addsRouters=True
    )


def test_a_change_to_routers_is_called_that() -> None:
    seen = view(changing([partition(each, "Reconciling") for each in range(4)]))
    output = io.StringIO()
    Console(file=output, width=300).print(render_stream(seen, [], NOW))
    assert CHANGE in output.getvalue()


def test_a_worker_that_waits_for_the_others_holds_nothing_up() -> None:
    assert found(changing([partition(each, "Reconciling") for each in range(4)])) == []


def test_a_worker_that_has_not_handed_over_holds_the_change_up() -> None:
    others = [partition(each, "Reconciling") for each in (0, 2, 3)]
    (old,) = found(changing([*others, partition(1)]))
    assert old.what == "The change to routers is held up"
    assert old.why == (
        "HandingOver waits for 1: partition 1 still runs without routers: its pod has not started again"
    )
    assert old.do.endswith("until it is done the stream passes no message")
    broken, _ = found(changing([*others, partition(1, "Failed", message="no node")]))
    assert broken.why == "HandingOver waits for 1: partition 1 is not ready (Failed)"
