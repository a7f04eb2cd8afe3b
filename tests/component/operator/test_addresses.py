"""Addresses that are no Kafka cluster, as a tenant would try them: none is told from another."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from time import monotonic

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates

from dedupe_kafka.errors import BrokerUnavailable
from dedupe_operator.controller.work_queue import Key
from dedupe_operator.kafka_asks import AnswerPending, KafkaAsks
from dedupe_operator.topic_watch import TopicWatch
from tests.support.patience import HANG_SECONDS, patience_clock
from tests.support.processes.secured_broker import Certificate
from tests.unit.operator.objects import stream
from tests.unit.operator.waits import until

BANNER = b"SSH-2.0-OpenSSH_9.2 secret-host\r\n"
TLS = b"security.protocol=SSL\nenable.ssl.certificate.verification=false"


def listening() -> socket.socket:
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    made.listen()
    return made


def serving(server: socket.socket, answer: Callable[[socket.socket], None]) -> None:
    """Answer each connection, until the server is closed."""

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                try:
                    answer(connection)
                except OSError:
                    continue

    Thread(target=serve, daemon=True).start()


def ssh(connection: socket.socket) -> None:
    connection.sendall(BANNER)
    connection.recv(100)


def http(connection: socket.socket) -> None:
    connection.recv(100)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nServer: secret-host\r\n\r\n")


def silent(connection: socket.socket) -> None:
    while connection.recv(100):
        pass


@pytest.fixture
def places(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Addresses by what is there."""
    certificate = Certificate.make(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    key, _, _ = load_key_and_certificates(certificate.keystore.read_bytes(), b"changeit")
    assert key is not None
    written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "key.pem").write_bytes(written)
    context.load_cert_chain(certificate.pem, tmp_path / "key.pem")
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(listening()) for name in ("ssh", "http", "silent", "tls")
        }
        closed = listening()
        port = closed.getsockname()[1]
        closed.close()
        found = {name: f"127.0.0.1:{server.getsockname()[1]}" for name, server in servers.items()}
        encrypted = stack.enter_context(context.wrap_socket(servers["tls"], server_side=True))
        serving(encrypted, http)
        serving(servers["ssh"], ssh)
        serving(servers["http"], http)
        serving(servers["silent"], silent)
        yield found | {"closed": f"127.0.0.1:{port}", "nameless": "no-such-host.invalid:9092"}


@pytest.mark.parametrize("properties", [b"", TLS], ids=["plain", "TLS"])
def test_no_words_and_no_time_tell_what_answers_at_an_address(
    places: dict[str, str], properties: bytes
) -> None:
    asks = KafkaAsks(monotonic)
    secret = {"client.properties": properties} if properties else {}
    seconds: dict[str, float] = {}
    patient_seconds: dict[str, float] = {}  # without those in which the machine had no time
    begun: dict[Key, tuple[float, float]] = {}

    def answered(key: Key) -> None:
        at, patient_at = begun[key]
        patient_seconds[key.name] = patience_clock() - patient_at
        seconds[key.name] = monotonic() - at

    asks.start(answered)
    streams = {
        name: stream({"spec.kafka.bootstrapServers": address, "metadata.name": name})
        for name, address in places.items()
    }
    watches = {name: TopicWatch(asks) for name in places}
    for name, each in streams.items():
        begun[Key(each.metadata.namespace, name)] = monotonic(), patience_clock()
        with pytest.raises(AnswerPending):
            watches[name].get(each, secret)
    until(lambda: len(seconds) == len(places))
    problems = {name: watches[name].get(streams[name], secret).problems for name in places}
    asks.stop()
    words = {
        problem.message.replace(places[name], "ADDRESS") for name, (problem,) in problems.items()
    }
    assert len(words) == 1, words
    assert {problem.reason for (problem,) in problems.values()} == {"BrokerUnavailable"}
    assert max(patient_seconds.values()) < 2 * min(seconds.values()), (patient_seconds, seconds)


def test_an_answer_without_an_end_is_cut_off() -> None:
    sent = 0

    def endless(connection: socket.socket) -> None:
        nonlocal sent
        connection.recv(1000)
        connection.sendall((64 << 20).to_bytes(4, "big"))
        for _ in range(64):
            connection.sendall(bytes(1 << 20))
            sent += 1 << 20

    with listening() as server:
        serving(server, endless)
        asks = KafkaAsks(monotonic)
        at = stream({"spec.kafka.bootstrapServers": f"127.0.0.1:{server.getsockname()[1]}"})
        answer = asks.ask(at, {}, lambda connection: connection.cluster.topic_names())
        assert isinstance(answer.exception(HANG_SECONDS), BrokerUnavailable)
        asks.stop()
    assert sent < 32 << 20
