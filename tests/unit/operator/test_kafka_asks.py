"""Lanes to clusters: silent ones hold up no other, and their errors tell nothing of what answered."""

from collections.abc import Callable, Iterator, Mapping
from queue import Queue
from threading import Event

import pytest
from confluent_kafka import KafkaError

from dedupe_crds.spec.stream import DedupeStream
from dedupe_kafka.client import kafka_error
from dedupe_kafka.errors import BrokerUnavailable, StreamError, TopicMissing
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.credentials import CredentialsUnusable
from dedupe_operator.decide.allow_list import AllowList
from dedupe_operator.decide.kafka_problems import problem_of
from dedupe_operator.errors import LostLeadership
from dedupe_operator.kafka_asks import AnswerPending, Connection, KafkaAsks, Pending
from tests.support.patience import HANG_SECONDS
from tests.unit.operator.inline import FakeClock, Inline, inline_asks
from tests.unit.operator.objects import stream
from tests.unit.operator.waits import until

SECONDS = 20.0
URL = "https://login.example/token"
SECRET = {"client.properties": f"sasl.oauthbearer.token.endpoint.url={URL}".encode()}


class Clusters:
    """Clusters by address: those of `dead` do not answer until they are let go."""

    def __init__(self) -> None:
        self.connections: list[str] = []
        self.dead = Event()
        self.waiting: Queue[str] = Queue()

    def __call__(
        self, servers: str, properties: Mapping[str, str], *, timeout_seconds: float
    ) -> "FakeCluster":
        assert timeout_seconds > 0
        assert isinstance(properties, dict)
        self.connections.append(servers)
        return FakeCluster(self, servers)


class FakeCluster:
    def __init__(self, clusters: Clusters, servers: str) -> None:
        self.clusters, self.servers = clusters, servers

    def topic_names(self) -> list[str]:
        if self.servers.startswith("dead"):
            self.clusters.waiting.put(self.servers)
            self.clusters.dead.wait(HANG_SECONDS)
            raise BrokerUnavailable(f"{self.servers}: no answer")
        return [self.servers]


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    made = Clusters()
    monkeypatch.setattr("dedupe_operator.kafka_asks.Cluster", made)
    return made


@pytest.fixture
def asks(clusters: Clusters) -> Iterator[KafkaAsks]:
    made = KafkaAsks(FakeClock())
    yield made
    clusters.dead.set()
    made.stop()


def at(servers: str, name: str = "orders") -> DedupeStream:
    return stream({"spec.kafka.bootstrapServers": servers, "metadata.name": name})


def test_a_cluster_that_answers_slowly_leaves_the_threads_of_the_others(clusters: Clusters) -> None:
    clock, silent = FakeClock(), Inline()
    silent.held = []
    asks = KafkaAsks(clock, answering=Inline(), silent=silent)

    def slow(_: Connection) -> int:
        clock.now += 11
        return 1

    assert asks.ask(at("slow:9092"), {}, slow).result(0) == 1
    second = asks.ask(at("slow:9092"), {}, names)
    assert not second.done()
    assert asks.ask(at("other:9092"), {}, names).result(0) == ["other:9092"]
    while silent.held:
        silent.held.pop()()
    assert second.result(0) == ["slow:9092"]
    assert asks.ask(at("slow:9092"), {}, names).result(0) == ["slow:9092"]
    assert clusters.connections == ["slow:9092", "other:9092"]


def names(connection: Connection) -> list[str]:
    return connection.cluster.topic_names()


def failing(error: StreamError) -> Callable[[Connection], None]:
    def fail(_: Connection) -> None:
        raise error

    return fail


def test_streams_with_the_same_access_share_a_connection_and_each_answer_is_told(
    asks: KafkaAsks, clusters: Clusters
) -> None:
    due: Queue[Key] = Queue()
    asks.start(due.put)
    answers = [asks.ask(at("kafka:9092", name), {}, names) for name in ("a", "b")]
    assert [each.result(HANG_SECONDS) for each in answers] == [["kafka:9092"]] * 2
    assert {due.get(timeout=HANG_SECONDS).name for _ in range(2)} == {"a", "b"}
    assert clusters.connections == ["kafka:9092"]
    assert asks.ask(at("kafka:9092"), {"x": b"y"}, names).result(HANG_SECONDS)
    assert len(clusters.connections) == 2, "other credentials, another connection"


def test_an_answer_that_is_known_already_brings_no_pass(asks: KafkaAsks) -> None:
    due: Queue[Key] = Queue()
    asks.start(due.put)
    known = asks.ask(at("kafka:9092", "a"), {}, names, known=["kafka:9092"])
    assert known.result(HANG_SECONDS) == ["kafka:9092"]
    for name, before in (("b", ["other:9092"]), ("c", None)):
        asks.ask(at("kafka:9092", name), {}, names, known=before)
    assert {due.get(timeout=HANG_SECONDS).name for _ in range(2)} == {"b", "c"}
    assert due.empty()


def test_dead_clusters_hold_up_no_other_once_they_are_known(
    asks: KafkaAsks, clusters: Clusters
) -> None:
    """Three hundred of them, each with a question that is out, and many that wait."""
    clusters.dead.set()
    dead = [at(f"dead-{number}:9092") for number in range(300)]
    for each in [asks.ask(one, {}, names) for one in dead]:
        assert isinstance(each.exception(SECONDS), BrokerUnavailable)
    clusters.dead.clear()
    asks.clock.now += 1000.0  # type: ignore[attr-defined] # the fake
    out = [asks.ask(one, {}, names) for one in dead]
    until(lambda: clusters.waiting.qsize() > 300)
    assert asks.ask(at("kafka:9092"), {}, names).result(HANG_SECONDS) == ["kafka:9092"]
    assert not any(each.done() for each in out)


def test_new_dead_clusters_leave_threads_to_others(asks: KafkaAsks, clusters: Clusters) -> None:
    out = [asks.ask(at(f"dead-{number}:9092"), {}, names) for number in range(20)]
    until(lambda: clusters.waiting.qsize() == 20)
    assert asks.ask(at("kafka:9092"), {}, names).result(HANG_SECONDS)
    assert not any(each.done() for each in out)


def test_a_silent_cluster_is_asked_once_for_all_its_streams_and_ever_more_rarely(
    clusters: Clusters,
) -> None:
    clusters.dead.set()
    clock = FakeClock()
    asks = inline_asks(clock)
    tries = []
    for second in range(200):
        clock.now = 1000.0 + second
        before = clusters.waiting.qsize()
        for name in ("a", "b", "c"):
            error = asks.ask(at("dead:9092", name), {}, names).exception()
            assert isinstance(error, BrokerUnavailable)
        if clusters.waiting.qsize() > before:
            assert clusters.waiting.qsize() == before + 1
            tries.append(second)
    assert tries == [0, 3, 9, 21, 45, 93, 153]


def test_one_failure_of_a_cluster_that_has_answered_is_asked_again_at_once(
    clusters: Clusters,
) -> None:
    asks = inline_asks(FakeClock())
    question = failing(BrokerUnavailable("a broker has gone"))
    assert asks.ask(at("kafka:9092"), {}, names).result()
    assert asks.ask(at("kafka:9092"), {}, question).exception()
    assert asks.ask(at("kafka:9092"), {}, names).result()
    assert len(clusters.connections) == 2, "the connection is made anew"
    for _ in range(2):
        asks.ask(at("kafka:9092"), {}, question)
    assert asks.ask(at("kafka:9092"), {}, names).exception(), "two in a row are silence"


def test_an_error_that_kafka_itself_tells_is_no_silence(clusters: Clusters) -> None:
    asks = inline_asks(FakeClock())
    told = kafka_error(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), "describing topic raw")
    for error in (TopicMissing("gone"), told, told):
        assert asks.ask(at("kafka:9092"), {}, failing(error)).exception() is error
    assert asks.ask(at("kafka:9092"), {}, names).result()
    assert len(clusters.connections) == 1


def test_nothing_is_asked_without_the_lease(clusters: Clusters) -> None:
    def lost() -> None:
        raise LostLeadership("renewed too long ago")

    asks = KafkaAsks(FakeClock(), check=lost)
    answer = asks.ask(at("kafka:9092"), {}, names)
    assert isinstance(answer.exception(SECONDS), LostLeadership)
    assert clusters.connections == []
    asks.stop()


def test_what_is_dropped_is_not_asked(asks: KafkaAsks, clusters: Clusters) -> None:
    first = asks.ask(at("dead:9092"), {}, names)
    assert clusters.waiting.get(timeout=HANG_SECONDS)
    pending: Pending[list[str]] = Pending()
    assert pending.take(asks, "it", lambda: asks.ask(at("dead:9092"), {}, names)) is None
    pending.drop()
    clusters.dead.set()
    assert first.exception(SECONDS)
    assert asks.ask(at("kafka:9092"), {}, names).result(HANG_SECONDS)
    assert clusters.waiting.empty()


def test_a_pass_waits_for_its_answer_and_goes_on_without_after_a_while(
    asks: KafkaAsks, clusters: Clusters
) -> None:
    pending: Pending[list[str]] = Pending()

    def take() -> Callable[[], list[str]] | None:
        return pending.take(asks, "it", lambda: asks.ask(at("dead:9092"), {}, names))

    assert take() is None
    with pytest.raises(AnswerPending):
        pending.wait(asks)
    asks.clock.now += 60.0  # type: ignore[attr-defined] # the fake
    assert take() is None
    assert pending.wait(asks).reason == "KafkaNotAsked"
    clusters.dead.set()
    found: list[Callable[[], list[str]]] = []

    def answered() -> bool:
        found.extend(answer for answer in [take()] if answer)
        return bool(found)

    until(answered)
    with pytest.raises(BrokerUnavailable):
        found[0]()
    assert clusters.waiting.qsize() == 1, "it was asked once"


def test_a_connection_is_closed_after_its_last_use_and_when_the_operator_stops(
    clusters: Clusters,
) -> None:
    clock = FakeClock()
    asks = inline_asks(clock)
    asks.ask(at("kafka:9092"), {"key": b"1"}, names)
    clock.now += 59.0
    asks.ask(at("kafka:9092"), {"key": b"2"}, names)
    clock.now += 2.0
    asks.tidy()
    for key in (b"1", b"2"):
        asks.ask(at("kafka:9092"), {"key": key}, names)
    assert len(clusters.connections) == 3, "the second one was still in use"
    asks.stop()
    assert asks.ask(at("kafka:9092"), {"key": b"3"}, names).cancelled()


def test_a_token_endpoint_gets_requests_only_if_the_platform_allows_it(
    clusters: Clusters,
) -> None:
    asks = inline_asks(FakeClock())
    error = asks.ask(at("kafka:9092"), SECRET, names).exception()
    assert isinstance(error, CredentialsUnusable)
    assert error.reason == "TokenEndpointNotAllowed"
    assert URL not in str(error)
    assert clusters.connections == []
    for other in (f"{URL}/more", URL.replace("https", "http")):
        with pytest.raises(CredentialsUnusable):
            allowing(other).ask(at("kafka:9092"), SECRET, names).result(HANG_SECONDS)
    assert allowing(URL).ask(at("kafka:9092"), SECRET, names).result(HANG_SECONDS)


def allowing(url: str) -> KafkaAsks:
    return KafkaAsks(FakeClock(), allowed=AllowList(token_endpoints=(url,)))


NO_KAFKA = [
    kafka_error(KafkaError(code, text), "describing topic raw on kafka:9092")
    for code, text in (
        (KafkaError._TRANSPORT, "ssh:22: Disconnected: SSH-2.0-OpenSSH_9.2 (after 3ms)"),  # noqa: SLF001 (its public name)
        (KafkaError._TRANSPORT, "Connect to ipv4#10.0.0.1:22 failed: Connection refused"),  # noqa: SLF001 (its public name)
        (KafkaError._RESOLVE, "Failed to resolve 'ssh:22': Name or service not known"),  # noqa: SLF001 (its public name)
        (KafkaError._SSL, "ssl3_get_record:wrong version number: CN=internal.example"),  # noqa: SLF001 (its public name)
        (KafkaError._BAD_MSG, "Invalid response size 1347703880"),  # noqa: SLF001 (its public name)
        (KafkaError._TIMED_OUT, "Timed out after 5001 ms"),  # noqa: SLF001 (its public name)
    )
]


def test_all_that_is_not_kafka_is_told_in_the_same_words() -> None:
    told = {
        (found.reason, found.message)
        for error in [*NO_KAFKA, BrokerUnavailable("describing topic raw: no answer")]
        if (found := problem_of(error, "kafka:9092"))
    }
    assert len(told) == 1
    assert "no answer as of a Kafka cluster from kafka:9092" in told.pop()[1]


def test_refused_credentials_are_told_without_the_words_of_the_broker() -> None:
    for code in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):  # noqa: SLF001 (its public name)
        found = problem_of(kafka_error(KafkaError(code, "user 17 of ldap"), "describing"), "k:1")
        assert found.reason == "NotAuthorized"
        assert "refuses the credentials" in found.message
        assert "ldap" not in found.message


def test_what_kafka_says_of_topics_is_told_as_it_is() -> None:
    refused = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    error = kafka_error(refused, "describing topic raw")
    found = problem_of(error, "kafka:9092")
    assert (found.reason, found.message) == ("NotAuthorized", str(error))
