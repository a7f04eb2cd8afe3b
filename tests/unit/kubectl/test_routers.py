"""What the plugin says of routers."""

import io
import json

from rich.console import Console

from dedupe_crds.status.stream import RoutersInput, RoutersStatus
from dedupe_kubectl.diagnosis import Facts, Problem, find
from dedupe_kubectl.objects import Object, read_stream
from dedupe_kubectl.router_lines import routers_line
from dedupe_kubectl.tables import as_json, render_stream, view_json
from tests.unit.kubectl.documents import NOW, READY, condition, event, stream, view

ROUTERS = {
    "replicas": 2,
    "ready": 1,
    "inputs": [{"topic": "eu", "lagMessages": 10}, {"topic": "us", "lagMessages": 1200}],
    "heldRecords": 5000,
    "heldBytes": "5Mi",
    "epoch": 3,
}
BROKEN = {**ROUTERS, "reason": "NotAuthorized", "message": "router 1: an ACL is missing"}
DEGRADED = condition("Degraded", "True", "NotAuthorized", "Router 1: an ACL is missing.")


def found(document: Object, *events: Object) -> list[Problem]:
    return find(Facts(view=view(document), now=NOW, events=events, operators=()))


def test_they_are_a_line_with_the_longest_lag_first() -> None:
    routers = RoutersStatus.model_validate(ROUTERS)
    assert routers_line(routers) == (
        "routers: 1 of 2 ready, lag 1,210 (us 1,200, eu 10), 5,000 records (5Mi) held for the workers, epoch 3"
    )
    unknown = routers.model_copy(update={"inputs": [RoutersInput(topic="eu")]})
    assert "lag -, 5,000 records" in routers_line(unknown)


def test_many_inputs_are_cut_short() -> None:
    inputs = [RoutersInput(topic=f"t{number}", lag_messages=number) for number in range(7)]
    line = routers_line(RoutersStatus(replicas=1, ready=1, inputs=inputs))
    assert "lag 21 (t6 6, t5 5, t4 4, t3 3, t2 2, and 2 more)" in line


def test_status_shows_them_as_text_and_as_json() -> None:
    seen = view(stream(status={"routers": ROUTERS}))
    output = io.StringIO()
    Console(file=output, width=300).print(render_stream(seen, [], NOW))
    assert "routers: 1 of 2 ready" in output.getvalue()
    document = json.loads(as_json(view_json(seen, [])))
    assert document["routers"]["ready"] == 1
    assert document["routers"]["heldBytes"] == 5 * 1024**2
    assert document["routers"]["inputs"][1] == {"topic": "us", "lagMessages": 1200}


def test_a_stream_without_them_says_nothing_of_them() -> None:
    seen = view(stream())
    assert "routers" not in view_json(seen, [])


def test_several_inputs_are_named_and_so_is_a_pattern() -> None:
    several = stream(spec={"input": {"topics": ["eu", "us"]}})
    assert read_stream(several).flow == "eu, us → clean"
    pattern = stream(spec={"input": {"pattern": "orders-.*"}})
    assert read_stream(pattern).flow == "orders-.* → clean"


def test_what_stops_a_router_is_told_once_with_its_events() -> None:
    document = stream(conditions=[READY[0], DEGRADED], status={"routers": BROKEN})
    (problem,) = found(
        document, event("orders-router-1", "back-off"), event("orders-1-0", "of a worker")
    )
    assert problem.what == "1 of 2 routers are ready"
    assert problem.why == "NotAuthorized: router 1: an ACL is missing"
    assert problem.do.startswith("correct client.properties")
    assert problem.events == ("Failed: back-off",)


def test_a_warning_of_a_router_that_is_ready_is_told_as_the_streams() -> None:
    warned = {**ROUTERS, "ready": 2, "reason": "InputTopicMissing", "message": "router 0: no b"}
    degraded = condition("Degraded", "True", "InputTopicMissing", "Router 0: no b.")
    document = stream(conditions=[READY[0], degraded], status={"routers": warned})
    (problem,) = found(document)
    assert problem.what == "The stream is degraded"
    assert problem.why == "InputTopicMissing: Router 0: no b."


def test_without_any_router_ready_the_stream_is_not_ready() -> None:
    starting = {**ROUTERS, "ready": 0}
    ready = condition("Ready", "False", "RoutersNotReady", "No router is ready.")
    document = stream(conditions=[ready], status={"routers": starting})
    (problem,) = found(document, event("orders-router", "no quota", kind="StatefulSet"))
    assert problem.why == "RoutersNotReady: No router is ready."
    assert problem.events == ("Failed: no quota",)


def test_routers_of_a_suspended_stream_are_no_problem() -> None:
    document = stream(spec={"suspend": True}, status={"routers": BROKEN})
    assert found(document) == []
