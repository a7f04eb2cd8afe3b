"""Command `python -m benchmarks.scale.requests`: the requests that many partitions cost a broker.

Some workers of a stream with many partitions run in this process against a real broker on loopback. Their requests are
counted by type from the statistics of librdkafka's clients, at rest and under slow streams, and multiplied by
partitions / workers. The command brings the figures to docs/scale.md.
"""

import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final

import click
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # public names

from benchmarks.harness.machine import describe_machine
from benchmarks.harness.measure import cpu_seconds_of
from benchmarks.scale.figures import SCALE_PAGE
from benchmarks.scale.requests_page import Case, Load, with_requests
from dedupe_crds.deadline import Deadline
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.worker import Phase
from dedupe_kafka.clients import Clients, Config
from dedupe_local.servers.kafka import EmbeddedBroker
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.component_factory import ComponentFactory
from dedupe_worker.config import WorkerConfig
from dedupe_worker.store.state_dir import StateDirectory
from dedupe_worker.supervisor import Supervisor

_STATISTICS_MS: Final = 500
_READY_SECONDS: Final = 300.0
_PACE_SECONDS: Final = 3.0  # until the commits have their pace
_HEAP: Final = "1g"


class Requests:
    """Counts the requests and received bytes of all clients that are made through it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_client: dict[str, Counter[str]] = {}
        self._admins: list[Any] = []

    def clients(self) -> Clients:
        """Return the client library's classes, with statistics."""
        return Clients(
            consumer=self._counted(Consumer),
            producer=self._counted(Producer),
            admin=self._counted(AdminClient),
        )

    def total(self) -> Counter[str]:
        """Return the counts so far, by request, and received bytes as `bytes`."""
        for admin in self._admins:
            while admin.poll(0):
                pass
        with self._lock:
            return sum(self._by_client.values(), Counter())

    def _counted(self, kind: Callable[[Config], Any]) -> Callable[[Config], Any]:
        def make(config: Config) -> Any:  # noqa: ANN401 (a client of the library)
            statistics = {"statistics.interval.ms": _STATISTICS_MS, "stats_cb": self._take}
            client = kind({**config, **statistics})
            if kind is AdminClient:  # the worker polls the others
                self._admins.append(client)
            return client

        return make

    def _take(self, text: str) -> None:
        found = json.loads(text)
        counts: Counter[str] = Counter()
        for broker in found["brokers"].values():
            counts.update(broker["req"])
            counts["bytes"] += broker["rxbytes"]
        with self._lock:
            self._by_client[found["name"]] = counts


def _stream(servers: str, partitions: int, tuning: dict[str, str]) -> DedupeStream:
    return DedupeStream.model_validate(
        {
            "apiVersion": "dedupestream.io/v1alpha1",
            "kind": "DedupeStream",
            "metadata": {"name": f"requests-{partitions}", "namespace": "bench"},
            "spec": {
                "kafka": {"bootstrapServers": servers},
                "input": {"topic": "raw"},
                "output": {"topic": "clean"},
                "id": {"from": "Key"},
                "worker": {"tuning": {"queueBytes": "1Mi", **tuning}},
                "store": {"window": {"maxBytes": "64Mi"}},
            },
        }
    )


@contextmanager
def _workers(
    stream: DedupeStream, count: int, directory: Path, requests: Requests
) -> Iterator[list[ComponentFactory]]:
    """Run workers of the first partitions until the block ends."""
    stop = Event()
    factories, threads = [], []
    for number in range(count):
        state = StateDirectory(directory / str(number))
        config = WorkerConfig(stream=stream, partition=number, state=state, properties={})
        factory = ComponentFactory(config, clients=requests.clients())
        supervisor = Supervisor(factory, CommandQueue(), stop)
        threads.append(Thread(target=supervisor.run, daemon=True))
        factories.append(factory)
        threads[-1].start()
    ready = Deadline(_READY_SECONDS)
    while not all(each.worker_state.phase is Phase.RUNNING for each in factories):
        if not ready.pause(0.2):
            raise click.ClickException("the workers are not ready in time")
    try:
        yield factories
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)


@contextmanager
def _sending(servers: str, workers: int, rate: float) -> Iterator[None]:
    """Send `rate` records a second to each of the first partitions until the block ends."""
    stop = Event()
    sender = Thread(target=_send, args=(servers, workers, rate, stop), daemon=True)
    sender.start()
    try:
        yield
    finally:
        stop.set()
        sender.join(30)


def _send(servers: str, workers: int, rate: float, stop: Event) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1})
    began, sent = time.monotonic(), 0
    while not stop.wait(0.001):
        due = int((time.monotonic() - began) * rate)
        for number in range(sent, due):
            for partition in range(workers):
                producer.produce("raw", b"x", f"{partition}-{number}-{began}", partition)
        sent = due
        producer.poll(0)
    producer.flush(10)


@click.command()
@click.option("--partitions", default=1000, show_default=True, help="Partitions of the topics.")
@click.option("--workers", default=3, show_default=True, help="Workers in this process.")
@click.option("--seconds", default=30.0, show_default=True, help="Time for each rate.")
@click.option("--rate", "rates", multiple=True, default=(0.0, 1.0, 10.0, 100.0), show_default=True)
@click.option(
    "--bound",
    "bounds",
    multiple=True,
    default=("", "25ms"),
    help="spec.worker.tuning.maxCommitInterval; empty for the default.",
)
@click.option("--page", default=SCALE_PAGE, show_default="docs/scale.md", type=Path)
def main(  # noqa: PLR0917 (click passes each option by name)
    partitions: int,
    workers: int,
    seconds: float,
    rates: tuple[float, ...],
    bounds: tuple[str, ...],
    page: Path,
) -> None:
    """Count the requests of a stream's workers; bring them to a page for all partitions."""
    machine = describe_machine()
    cases: list[Case] = []
    for bound in bounds:
        cases += [
            case
            for case in _measure(partitions, workers, seconds, rates, bound)
            if case.rate or not cases  # at rest nothing is committed, whatever the bound
        ]
    load = Load(partitions=partitions, workers=workers, seconds=seconds, cases=cases)
    page.write_text(with_requests(page.read_text(), load, machine))
    click.echo(f"{page} is updated")


def _measure(
    partitions: int,
    workers: int,
    seconds: float,
    rates: tuple[float, ...],
    bound: str,
) -> Iterator[Case]:
    """Yield what workers of a new stream cost at each rate."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        with EmbeddedBroker(directory / "broker", heap=_HEAP) as broker:
            servers = broker.bootstrap_servers
            admin = AdminClient({"bootstrap.servers": servers})
            topics = [NewTopic(name, partitions, 1) for name in ("raw", "clean")]
            for future in admin.create_topics(topics, request_timeout=120).values():
                future.result(120)
            requests = Requests()
            tuning = {"maxCommitInterval": bound} if bound else {}
            stream = _stream(servers, partitions, tuning)
            with _workers(stream, workers, directory / "state", requests) as factories:
                _warm_up(servers, factories)
                for rate in rates:
                    with _sending(servers, workers, rate):
                        time.sleep(_PACE_SECONDS)
                        counted = _count(factories, requests, broker.pid, seconds)
                    yield Case(rate=rate, bound=bound, counted=counted)
                    click.echo(f"{rate:g} messages/s {bound}: {counted}")


def _warm_up(servers: str, factories: list[ComponentFactory]) -> None:
    """Wait until each worker has committed, so that the brokers' coordinators are there."""
    ready = Deadline(_READY_SECONDS)
    with _sending(servers, len(factories), 1.0):
        while not all(each.worker_state.tally.transactions for each in factories):
            if not ready.pause(0.2):
                raise click.ClickException("the workers do not commit in time")


def _count(
    factories: list[ComponentFactory], requests: Requests, broker: int, seconds: float
) -> dict[str, float]:
    """Return requests by type, `commits`, received `bytes` and `cpu` of the broker a second.

    They are of all workers together.
    """

    def now() -> dict[str, float]:
        commits = sum(each.worker_state.tally.transactions for each in factories)
        return {**requests.total(), "commits": commits, "cpu": cpu_seconds_of(broker)}

    before, began = now(), time.monotonic()
    time.sleep(seconds)
    after, passed = now(), time.monotonic() - began
    return {name: (count - before.get(name, 0)) / passed for name, count in after.items()}


if __name__ == "__main__":
    main()
