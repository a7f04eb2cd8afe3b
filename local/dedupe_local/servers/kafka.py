"""An embedded Kafka broker: one KRaft node.

Local runs, the demo and the tests start it. Invariant: it cannot outlive this process.
"""

import errno
import socket
import subprocess
from base64 import urlsafe_b64encode
from contextlib import ExitStack, suppress
from itertools import cycle
from pathlib import Path
from random import SystemRandom
from typing import IO, Self
from uuid import uuid4

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from dedupe_crds.deadline import Deadline
from dedupe_kafka.client import calling
from dedupe_local.errors import BrokerFailed
from dedupe_local.run import child_process
from dedupe_local.servers.java_paths import check_path, environment, property_value
from dedupe_pipeline.runtime.jars import kafka_broker
from dedupe_pipeline.runtime.java import find_java

HOST = "127.0.0.1"

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_START_ATTEMPTS = 3
_SHOWN_LOG_LINES = 8
# A killed broker cannot register again before its session has expired: so the session is short.
_SESSION_SECONDS = 4.0
_PORT_TAKEN = "Address already in use"
# Below the ephemeral ports of Linux (32768) and IANA (49152), and the node ports of Kubernetes (30000).
_PORTS = range(20_000, 30_000)
# In an order of its own, so that two processes hardly choose the same one. Its steps are atomic: threads share it.
_in_turn = cycle(SystemRandom().sample(_PORTS, len(_PORTS)))

_SERVER_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
# One node has no replicas.
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.segment.bytes=268435456
file.delete.delay.ms=1000
broker.session.timeout.ms={session_ms}
broker.heartbeat.interval.ms=500
"""

_LOG4J_PROPERTIES = """\
log4j.rootLogger=WARN, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class EmbeddedBroker:
    """A Kafka broker in a child process, which ends when this process ends.

    `data_dir` holds its topics, its configuration and `broker.log`. A restart on the same directory and port keeps the
    topics. Without a port it takes any free port, and keeps that for later starts. `heap` is Java's, such as "512m".
    `host` is the address of this machine that it listens on and advertises: any client that reaches that address has
    full access. `session_seconds` is how long the broker may hang before the controller considers it dead and its
    partitions lose their leader. `start_seconds` is how long a start may take.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        heap: str = "512m",
        *,
        host: str = HOST,
        session_seconds: float = _SESSION_SECONDS,
        start_seconds: float = _START_SECONDS,
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.log_path = self.data_dir / "broker.log"
        self.port = port
        self.host = host
        self._heap = heap
        self._session_seconds = session_seconds
        self._start_seconds = start_seconds
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Return HOST:PORT, which is known after the first start."""
        if self.port is None:
            raise RuntimeError("The broker has no port before its first start().")
        return f"{self.host}:{self.port}"

    @property
    def running(self) -> bool:
        """Return whether the broker's process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Return the broker's process id, while it runs."""
        if self._process is None:
            raise RuntimeError("The broker is not running; call start().")
        return self._process.pid

    def start(self) -> None:
        """Start the broker and wait until it answers.

        Raises:
            Refused: the path of `data_dir` has a character that Kafka or Java cannot have there.
            BrokerFailed: the broker ended, or did not answer in time.
            JavaMissing: there is no Java runtime.
            JarsUnavailable: the broker's jars could not be fetched.
        """
        if self.running:
            raise RuntimeError(f"The broker is already running, as process {self.pid}.")
        check_path(self.data_dir)
        # Not for other users, whatever the umask is: it has the topics.
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for attempt in range(1, _START_ATTEMPTS + 1):
            free_port, controller_port = free_ports(2, self.host)
            port = self.port or free_port
            logged = self.log_path.stat().st_size if self.log_path.exists() else 0
            try:
                self._try_start(port, controller_port)
            except BrokerFailed as failed:
                log_tail = _tail(self.log_path, logged)
                # Another process took a port after it was chosen; a port that was given is not chosen.
                chosen = self.port is None or _is_free(self.port, self.host)
                if _PORT_TAKEN in log_tail and chosen and attempt < _START_ATTEMPTS:
                    continue
                raise BrokerFailed(self._explain(port, str(failed), log_tail)) from None
            else:
                self.port = port
                return

    def stop(self) -> None:
        """Stop the broker, with time to close its files."""
        if self._process is not None:
            child_process.stop([self._process], deadline_seconds=_STOP_SECONDS)
            self._process = None

    def kill(self) -> None:
        """Kill the broker with SIGKILL, as in a crash."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _try_start(self, port: int, controller_port: int) -> None:
        properties = self._configure(port, controller_port)
        with self.log_path.open("ab") as log:
            if not (self.data_dir / "data" / "meta.properties").exists():
                self._format(properties, log)
            self._process = child_process.spawn(
                [*self._java(), f"-Xmx{self._heap}", "kafka.Kafka", properties],
                output=log,
                env=environment(),
            )
        try:
            self._wait_until_it_answers(port, Deadline(self._start_seconds))
        except BaseException:
            self.kill()
            raise

    def _configure(self, port: int, controller_port: int) -> Path:
        (self.data_dir / "log4j.properties").write_text(_LOG4J_PROPERTIES)
        properties = self.data_dir / "server.properties"
        properties.write_text(
            _SERVER_PROPERTIES.format(
                session_ms=round(self._session_seconds * 1000),
                host=self.host,
                port=port,
                controller_port=controller_port,
                data=property_value(str(self.data_dir / "data")),
            )
        )
        return properties

    def _java(self) -> list[str | Path]:
        # The directory comes first on the class path for its log4j.properties.
        return [find_java(), "-cp", ":".join(map(str, [self.data_dir, *kafka_broker()]))]

    def _format(self, properties: Path, log: IO[bytes]) -> None:
        cluster_id = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        command = [*self._java(), "kafka.tools.StorageTool", "format"]
        # One argument, because the id may begin with a dash.
        command += [f"--cluster-id={cluster_id}", "--config", properties]
        formatting = subprocess.run(command, stdout=log, stderr=log, check=False, env=environment())
        if formatting.returncode != 0:
            raise BrokerFailed(f"formatting its data directory failed ({formatting.returncode})")

    def _wait_until_it_answers(self, port: int, deadline: Deadline) -> None:
        client = AdminClient(
            {
                "bootstrap.servers": f"{self.host}:{port}",
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,  # a refused connection is expected during the start
            }
        )
        while not deadline.expired:
            if self._process is not None and (code := self._process.poll()) is not None:
                raise BrokerFailed(f"it ended with exit code {code}")
            with calling("starting the broker"):
                try:
                    cluster = client.list_topics(timeout=0.5)
                except KafkaException:
                    continue  # the call has waited for its timeout
            # Another broker may listen on this port, so that ours is about to fail.
            if cluster.brokers and cluster.cluster_id == self._cluster_id():
                return
        raise BrokerFailed(f"it did not answer within {deadline.seconds:.0f} s")

    def _cluster_id(self) -> str:
        meta = (self.data_dir / "data" / "meta.properties").read_text()
        return dict(line.split("=", 1) for line in meta.split() if "=" in line)["cluster.id"]

    def _explain(self, port: int, what: str, log_tail: str) -> str:
        if _PORT_TAKEN in log_tail:
            todo = (
                f"Something listens on port {port}: stop it, choose another port, or, if it is Kafka, "
                f"use it with --bootstrap-servers {self.host}:{port} instead of --embedded"
            )
        elif "OutOfMemoryError" in log_tail or "Could not reserve" in log_tail:
            todo = f"Free memory: the broker needs {self._heap} of heap"
        elif "No space left" in log_tail:
            todo = f"Free disk space for {self.data_dir}"
        else:
            todo = f"See {self.log_path}; if its data is no longer needed, remove {self.data_dir}"
        last = "\n".join(log_tail.splitlines()[-_SHOWN_LOG_LINES:])
        return (
            f"The embedded Kafka broker on port {port} did not start: {what}. {todo}. "
            f"The end of its log:\n{last}"
        )


def free_ports(count: int, host: str = HOST) -> list[int]:
    """Return different ports of this machine that no process listens on now.

    None of them is an ephemeral port: the system could give such a port to an outgoing connection before it is used, or
    while a broker that had it restarts. Nor does this process get one again before it has had all others.
    """
    with ExitStack() as opened:
        found: list[int] = []
        for _ in _PORTS:
            if len(found) == count:
                return found
            port = next(_in_turn)
            with suppress(OSError):
                opened.enter_context(socket.create_server((host, port)))
                found.append(port)
    raise OSError(
        errno.EADDRINUSE, f"no port of {_PORTS.start} to {_PORTS.stop - 1} is free on {host}"
    )


def _is_free(port: int, host: str) -> bool:
    with suppress(OSError), socket.create_server((host, port)):
        return True
    return False


def _tail(log: Path, start: int) -> str:
    """Return the log after byte `start`: at most 64 KiB, without stack frames."""
    with log.open("rb") as file:
        file.seek(max(start, log.stat().st_size - 65536))
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(line for line in lines if not line.startswith(("\tat ", "\t... ")))
