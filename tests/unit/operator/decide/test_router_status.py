"""What a stream's status says of its routers."""

from collections.abc import Sequence

from dedupe_crds.status.router import RouterStatus
from dedupe_crds.status.stream import RoutersInput, RoutersStatus
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.router_status import RoutersView, status_of
from tests.unit.operator.objects import router_pod, router_status


def view(
    *reports: RouterStatus,
    ready: Sequence[int] = (0, 1),
    problems: dict[int, Problem] | None = None,
) -> RoutersView:
    return RoutersView(
        replicas=2,
        pods={router: router_pod(router, ready=router in ready) for router in range(2)},
        reports={report.router: report for report in reports},
        problems=problems or {},
    )


def test_lags_are_of_all_routers_by_topic_and_rounded() -> None:
    found = status_of(
        view(
            router_status(0, lags={"a": 12_345, "b": 1}, held=(1_234, 56_789)),
            router_status(1, lags={"a": 1, "c": None}, held=(2_345, 45_678)),
        ),
        None,
    )
    assert found.inputs == [
        RoutersInput(topic="a", lag_messages=12_000),
        RoutersInput(topic="b", lag_messages=1),
        RoutersInput(topic="c", lag_messages=None),
    ]
    assert (found.held_records, found.held_bytes) == (2_300, 56_000)
    assert (found.replicas, found.ready) == (2, 2)
    assert (found.reason, found.message) == (None, None)


def test_while_no_router_answers_the_numbers_stay() -> None:
    recorded = RoutersStatus(replicas=9, ready=9, held_records=7, epoch=3, reason="Old")
    found = status_of(view(ready=()), recorded)
    assert (found.held_records, found.epoch) == (7, 3)
    assert (found.replicas, found.ready, found.reason) == (2, 0, None)
    assert status_of(view(ready=()), None) == RoutersStatus(replicas=2)


def test_the_topic_may_not_be_known_yet() -> None:
    found = status_of(view(router_status(held=None)), None)
    assert (found.held_records, found.held_bytes) == (None, None)


def test_each_cause_is_named_once_and_what_stops_a_router_first() -> None:
    missing = {"InputTopicMissing": "b: no such topic"}
    stopped = Problem(reason="NotAuthorized", message="an ACL is missing")
    seen = view(
        router_status(0, warnings=missing),
        router_status(1, warnings=missing),
        problems={1: stopped},
    )
    assert [(each.reason, each.message) for each in seen.causes] == [
        ("NotAuthorized", "router 1: an ACL is missing"),
        ("InputTopicMissing", "routers 0-1: b: no such topic"),
    ]
    found = status_of(seen, None)
    assert (found.reason, found.message) == ("NotAuthorized", "router 1: an ACL is missing")
