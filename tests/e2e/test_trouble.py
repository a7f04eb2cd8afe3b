"""What is wrong around a stream: told as a condition, no harm to others, and over when it is mended.

All streams of this module are in trouble at the same time, and all are mended at the same time.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import pytest

from dedupe_crds.spec.stream import GROUP
from dedupe_crds.status.stream import Condition, ConditionStatus, StreamStatus
from tests.cluster.environment import Environment
from tests.e2e.support.kubectl import Kubectl, KubectlFailed
from tests.e2e.support.operator_pods import OperatorPods
from tests.e2e.support.scene import scene
from tests.e2e.support.stream import ClusterStream
from tests.e2e.support.troubles import (
    TROUBLES,
    WRONG_PASSWORD,
    Case,
    World,
    remove_cluster_objects,
    set_quota,
    the_credentials_are_wrong,
    the_output_topic_forgets_too_soon,
)
from tests.e2e.support.undisturbed import state_of
from tests.faults.seed import SEED
from tests.support.patience import HANG_SECONDS, wait_for
from tests.support.processes.secured_broker import PASSWORD, Certificate, SecuredBroker
from tests.support.traffic.traffic import PacedProducer, retries

IDLE_SECONDS = 60.0  # by the operator's own clock
MESSAGES = 800
BUSY_SECONDS = 40.0
TITLES = [trouble.__name__ for trouble in TROUBLES]


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A stream that nothing is wrong with, and that has messages all the time."""

    stream: ClusterStream
    producer: PacedProducer
    state: list[str]


@dataclass
class Course:
    """What became of the streams in trouble; titles are those of TROUBLES."""

    cases: dict[str, Case] = field(default_factory=dict)
    told: dict[str, StreamStatus] = field(default_factory=dict)
    operator_starts: dict[str, int] = field(default_factory=dict)


@pytest.fixture(scope="module")
def world(
    release: Environment,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("trouble")
    host = release.kafka_bootstrap_in_cluster.rpartition(":")[0]
    certificate = Certificate.make(directory, host)
    with ExitStack() as stack:
        broker = SecuredBroker(directory / "broker", certificate, host=host)
        secured = stack.enter_context(broker)
        in_trouble = stack.enter_context(scene(release, "trouble", directory, request))
        stack.callback(remove_cluster_objects, in_trouble)
        crowded = stack.enter_context(scene(release, "crowded", directory, request))
        yield World(scene=in_trouble, crowded=crowded, secured=secured, certificate=certificate)


@pytest.fixture(scope="module")
def operators(release: Environment) -> OperatorPods:
    return OperatorPods(Kubectl(release))


@pytest.fixture(scope="module")
def neighbours(world: World) -> Iterator[list[Neighbour]]:
    """A stream in each of the two namespaces, ready before any trouble begins."""
    streams = [place.stream("healthy") for place in (world.scene, world.crowded)]
    for stream in streams:
        stream.apply()
    for stream in streams:
        stream.wait_until_ready()
    set_quota(world.crowded, "pods", {"pods": "1"})
    with ExitStack() as stack:
        yield [stack.enter_context(lively(stream)) for stream in streams]


@contextmanager
def lively(stream: ClusterStream) -> Iterator[Neighbour]:
    messages = list(retries(SEED, MESSAGES))
    with PacedProducer(
        stream.bootstrap_servers,
        stream.input_topic,
        messages,
        messages_per_second=MESSAGES / BUSY_SECONDS,
    ) as producer:
        yield Neighbour(stream=stream, producer=producer, state=state_of(stream))


@pytest.fixture(scope="module")
def in_trouble(world: World, neighbours: list[Neighbour], operators: OperatorPods) -> Course:  # noqa: ARG001 # they were there before
    """All streams in trouble, each told of or too late."""
    course = Course(operator_starts=operators.starts())
    course.cases = {trouble.__name__: trouble(world) for trouble in TROUBLES}

    def told(case: Case, status: StreamStatus) -> bool:
        degraded = condition(status, "Degraded")
        told_of = (degraded.status, degraded.reason) == (ConditionStatus.TRUE, case.reason)
        return told_of and all(words in degraded.message for words in case.says)

    course.told = watch(world, course.cases, told)
    return course


@pytest.fixture(scope="module")
def mended(world: World, in_trouble: Course) -> dict[str, StreamStatus]:
    """All of them mended, and well again or too late."""
    for case in in_trouble.cases.values():
        case.mend()
    return watch(world, in_trouble.cases, lambda _, status: is_well(status))


def watch(
    world: World,
    cases: dict[str, Case],
    holds: Callable[[Case, StreamStatus], bool],
) -> dict[str, StreamStatus]:
    """Wait until it holds for each case; what is late is left to the tests to tell."""
    found: dict[str, StreamStatus] = {}

    def all_hold() -> bool:
        try:
            statuses = world.scene.statuses() | world.crowded.statuses()
        except KubectlFailed:
            return False
        for title, case in cases.items():
            if title not in found or not holds(case, found[title]):
                found[title] = statuses.get(case.stream.name, StreamStatus())
        return all(holds(case, found[title]) for title, case in cases.items())

    with suppress(AssertionError):
        wait_for(all_hold, "it holds", poll_seconds=1.0)
    return found


def is_healthy(operators: OperatorPods, pod: str) -> bool:
    """Whether it says that it looked at a stream not long ago."""
    try:
        return operators.idle_seconds(pod) < IDLE_SECONDS
    except KubectlFailed:
        return False


def condition(status: StreamStatus, name: str) -> Condition:
    """One of its conditions; an unknown one if the operator has not judged it."""
    unknown = Condition(
        type=name,
        status=ConditionStatus.UNKNOWN,
        reason="Untold",
        message="",
        last_transition_time=datetime.now(UTC),
    )
    return next((one for one in status.conditions if one.type == name), unknown)


def is_well(status: StreamStatus) -> bool:
    degraded, ready = condition(status, "Degraded"), condition(status, "Ready")
    return degraded.status is ConditionStatus.FALSE and ready.status is ConditionStatus.TRUE


@pytest.mark.parametrize("title", TITLES)
def test_a_trouble_is_told_with_its_cause_and_what_to_do(in_trouble: Course, title: str) -> None:
    case, status = in_trouble.cases[title], in_trouble.told[title]
    degraded, ready = condition(status, "Degraded"), condition(status, "Ready")
    assert (degraded.status, degraded.reason) == (ConditionStatus.TRUE, case.reason), status
    assert [words for words in case.says if words not in degraded.message] == [], degraded.message
    if title != the_output_topic_forgets_too_soon.__name__:
        assert (ready.status, ready.reason) == (ConditionStatus.FALSE, case.reason)
        assert [words for words in case.says if words not in ready.message] == [], ready.message
    case.stream.wait_for_events(case.reason)
    warnings = {one["reason"] for one in case.stream.events() if one["type"] == "Warning"}
    assert case.reason in warnings


def test_meanwhile_the_operator_is_healthy_and_other_streams_work_on(
    in_trouble: Course, neighbours: list[Neighbour], operators: OperatorPods
) -> None:
    assert operators.starts() == in_trouble.operator_starts != {}
    for pod in in_trouble.operator_starts:
        wait_for(partial(is_healthy, operators, pod), f"{pod} is healthy", poll_seconds=0.5)
    for neighbour in neighbours:
        neighbour.stream.wait_until_passed()
        assert state_of(neighbour.stream) == neighbour.state


@pytest.mark.parametrize("title", TITLES)
def test_a_trouble_is_over_once_its_cause_is_mended(
    mended: dict[str, StreamStatus], title: str
) -> None:
    assert is_well(mended[title]), mended[title]


def test_messages_pass_through_tls_with_the_right_password(
    in_trouble: Course,
    mended: dict[str, StreamStatus],  # noqa: ARG001 # with the right password
) -> None:
    stream = in_trouble.cases[the_credentials_are_wrong.__name__].stream
    stream.send(retries(SEED, 500))
    assert stream.judged().expected < 500


def test_other_streams_lost_nothing(
    mended: dict[str, StreamStatus],  # noqa: ARG001 # after all of it
    neighbours: list[Neighbour],
) -> None:
    for neighbour in neighbours:
        neighbour.producer.finish(HANG_SECONDS)
        neighbour.stream.judged()
        assert state_of(neighbour.stream) == neighbour.state


def test_no_secret_is_shown_by_any_object_event_or_log(
    world: World,
    mended: dict[str, StreamStatus],  # noqa: ARG001 # after all of it
    operators: OperatorPods,
) -> None:
    kubectl = world.scene.kubectl
    names = kubectl("api-resources", "--namespaced", "--verbs=list", "--output=name").split()
    kinds = ",".join(name for name in names if name != "secrets" and "metrics" not in name)
    shown = [operators.logs()]
    shown += [kubectl("get", "dedupestreams,statefulsets,pods,configmaps", "-o", "yaml")]
    shown += [kubectl("get", kinds, "--show-managed-fields", "-o", "json")]
    shown += [kubectl("logs", pod) for pod in kubectl("get", "pods", "-o", "name").split()]
    tokens = {
        b64decode(secret["data"]["token"]).decode()
        for secret in kubectl.items("secrets", f"{GROUP}/stream")
    }
    assert len(tokens) > len(TROUBLES) // 2
    for secret in (PASSWORD, WRONG_PASSWORD, *tokens):
        for form in (secret, b64encode(secret.encode()).decode()):
            assert not any(form in text for text in shown), f"{form} is shown"
