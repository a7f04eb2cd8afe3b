"""Events that repeat, and what is remembered of them."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from dedupe_operator.controller.event_recorder import EventRecorder
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import EVENTS
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NOW, raw_stream

FULL = StreamEvent(reason="DiskFull", message="make room", warning=True)


class Scene:
    """A recorder on a cluster, and the time that it sees."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.now: datetime = NOW
        self.recorder = EventRecorder(self.cluster, lambda: self.now)

    def emit(self, *events: StreamEvent, after: timedelta = timedelta(), **stream: object) -> None:
        self.now += after
        raw = raw_stream({f"metadata.{name}": value for name, value in stream.items()})
        self.recorder.emit(raw, events)

    def events(self) -> list[Object]:
        return [each for (kind, _), each in self.cluster.objects.items() if kind == EVENTS.kind]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_an_event_that_repeats_is_one_object_that_counts_up(scene: Scene) -> None:
    scene.emit(FULL)
    scene.emit(FULL, after=timedelta(minutes=9))
    scene.emit(FULL, after=timedelta(minutes=9))
    (event,) = scene.events()
    assert (event["count"], event["message"], event["type"]) == (3, "make room", "Warning")
    assert event["firstTimestamp"] == "2026-11-01T12:00:00Z"
    assert event["lastTimestamp"] == "2026-11-01T12:18:00Z"


def test_one_that_comes_back_later_is_another_object(scene: Scene) -> None:
    scene.emit(FULL)
    scene.emit(FULL, after=timedelta(minutes=11))
    assert [event["count"] for event in scene.events()] == [1, 1]


def test_other_words_another_severity_and_another_stream_are_other_events(scene: Scene) -> None:
    scene.emit(FULL, StreamEvent(reason="DiskFull", message="more room", warning=True))
    scene.emit(StreamEvent(reason="DiskFull", message="make room"))
    scene.emit(FULL, uid="another stream of this name")
    assert [event["count"] for event in scene.events()] == [1] * 4


def messages(number: int, reason: str = "Refused") -> list[StreamEvent]:
    return [StreamEvent(reason=reason, message=f"snapshot {each}") for each in range(number)]


def test_many_messages_of_one_reason_are_combined(scene: Scene) -> None:
    scene.emit(*messages(30), FULL)
    found = scene.events()
    assert len(found) == 12
    (combined,) = (event for event in found if event["count"] > 1)
    assert combined["message"] == "(combined from similar events): snapshot 29"
    assert (combined["count"], combined["reason"]) == (20, "Refused")
    # One that has an object of its own keeps it.
    scene.emit(*messages(1))
    assert scene.cluster.one(EVENTS.kind, found[0]["metadata"]["name"])["count"] == 2


def test_what_is_remembered_is_bounded(scene: Scene) -> None:
    for number in range(300):
        scene.emit(*messages(1, reason=f"Reason{number}"))
    assert len(scene.recorder._recorded) <= 129  # noqa: SLF001 # its memory is what is tested
    scene.emit(after=timedelta(hours=1))
    scene.emit(FULL)
    assert len(scene.recorder._recorded) == 1  # noqa: SLF001 # as above


def test_an_object_that_the_api_server_deleted_is_written_again(scene: Scene) -> None:
    scene.emit(FULL)
    (event,) = scene.events()
    scene.cluster.remove(EVENTS.kind, event["metadata"]["name"])
    scene.emit(FULL)
    assert [event["count"] for event in scene.events()] == [2]


def test_an_event_that_was_refused_is_not_counted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Object) -> Object:
        raise KubernetesError("Forbidden", "no")

    with monkeypatch.context() as patch:
        patch.setattr(scene.cluster, "create", refuse)
        scene.emit(FULL)
    scene.emit(FULL)
    assert [event["count"] for event in scene.events()] == [1]


def test_a_long_message_is_cut_and_still_the_same_event(scene: Scene) -> None:
    long = StreamEvent(reason="R", message="x" * 5000)
    scene.emit(long)
    scene.emit(long)
    assert [(len(each["message"]), each["count"]) for each in scene.events()] == [(1024, 2)]


def test_an_ongoing_event_is_written_when_it_begins(scene: Scene) -> None:
    ongoing = replace(FULL, ongoing=True)
    for message in ("make room", "make room", "make more room"):
        scene.emit(replace(ongoing, message=message), after=timedelta(minutes=1))
    assert [event["count"] for event in scene.events()] == [1]
    scene.emit()
    scene.emit(ongoing)
    assert [event["count"] for event in scene.events()] == [2]


def test_an_ongoing_event_that_was_refused_is_written_by_the_next_pass(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Object) -> Object:
        raise KubernetesError("ApiServerError", "slow down")

    ongoing = replace(FULL, ongoing=True)
    with monkeypatch.context() as patched:
        patched.setattr(scene.cluster, "create", refuse)
        scene.emit(ongoing)
    assert scene.events() == []
    scene.emit(ongoing)
    assert len(scene.events()) == 1
