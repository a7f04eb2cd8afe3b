"""Router processes, and streams that have them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import yaml

from dedupe_crds.manifest import load_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.router import RouterStatus
from dedupe_growth.controller import GrowthController
from dedupe_kafka.cluster import Cluster
from tests.support.checker import history
from tests.support.checker.record import Message, Record
from tests.support.crashes.crashing_router import RouterCrash
from tests.support.patience import wait_for
from tests.support.processes.forked import ForkedProcess
from tests.support.processes.loopback import HTTP
from tests.support.processes.processes import WorkerProcess
from tests.support.traffic.streams import TestStream
from tests.support.traffic.traffic import produce

_HTTP_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class RoutedStream(TestStream):
    """A stream with routers: several inputs, and the topic between routers and workers.

    What `TestStream` says of the input is of the repartition topic, which the workers read.
    """

    __test__ = False

    inputs: tuple[str, ...]

    @property
    def router_group(self) -> str:
        """Return the consumer group of the routers."""
        return f"{self.group}.routers"

    def list_inputs(self) -> None:
        """List new inputs in the epoch log, as the runner of a stream does within seconds."""
        list_inputs(load_manifest(self.manifest))

    def send_to(self, topic: str, messages: Iterable[Message]) -> None:
        """Send messages to an input, and wait for them."""
        produce(self.bootstrap_servers, topic, messages)

    def raws(self) -> dict[str, list[Record]]:
        """Read all inputs as they are now."""
        return {name: history.read_topic(self.bootstrap_servers, name) for name in self.inputs}

    def routed(self) -> dict[str, dict[int, int]]:
        """Return the offsets that routers have committed, by input."""
        return {
            name: history.committed_offsets(
                self.bootstrap_servers, self.router_group, name, settled=False
            )
            for name in self.inputs
        }

    def is_routed(self) -> bool:
        """Return whether routers have committed all of the inputs."""
        committed = self.routed()
        ends = {name: history.end_offsets(self.bootstrap_servers, name) for name in self.inputs}
        return all(
            committed[name].get(partition, 0) >= end
            for name, each in ends.items()
            for partition, end in each.items()
        )

    def wait_until_routed(self, *, deadline_seconds: float = 120.0) -> None:
        """Wait until routers have committed all of the inputs, and Kafka shows it."""
        wait_for(
            self.is_routed,
            "all of the inputs is routed",
            deadline_seconds=deadline_seconds,
            explain=lambda: f"{self.routed()}",
        )
        history.wait_until_settled(self.bootstrap_servers, self.input_topic)

    def wait_until_read(self, workers: Iterable[WorkerProcess]) -> None:
        """Wait until workers have read all that is routed, and Kafka shows what they wrote.

        They do not commit the markers of transactions at the end, so their status is asked.
        """
        ends = self.ends()

        def has_read(worker: WorkerProcess) -> bool:
            return worker.status().input.next_offset >= ends[worker.partition]

        for worker in workers:
            worker.wait_until(partial(has_read, worker), f"it has read up to {ends}")
        self.settle()


def routed_manifest(
    directory: Path,
    servers: str,
    inputs: Sequence[str],
    output: str,
    *,
    partitions: int,
    repartition: Mapping[str, object] | None = None,
    **spec: object,
) -> RoutedStream:
    """Write the manifest of a stream with routers, and create its topics.

    `repartition` and `spec` are more fields, by their names in YAML.
    """
    name = output.replace("_", "-")
    document = {
        "apiVersion": "dedupestream.io/v1alpha1",
        "kind": "DedupeStream",
        "metadata": {"name": name},
        "spec": {
            "kafka": {"bootstrapServers": servers},
            "input": {"topics": list(inputs)},
            "output": {"topic": output},
            "id": {"from": "Key"},
            "repartition": {"partitions": partitions, **(repartition or {})},
            **spec,
        },
    }
    manifest = directory / f"{name}.yaml"
    manifest.write_text(yaml.safe_dump(document))
    stream = load_manifest(manifest)
    cluster = Cluster(servers)
    for each in inputs:
        cluster.wait_for(each)
    problems = cluster.ensure_output(stream).problems
    assert not [problem for problem in problems if problem.fatal]
    list_inputs(stream)
    return RoutedStream(
        name=name,
        bootstrap_servers=servers,
        input_topic=stream.spec.worker_input,
        output_topic=output,
        manifest=manifest,
        inputs=tuple(inputs),
    )


def list_inputs(stream: DedupeStream) -> None:
    """Write to the epoch log what the runner of a stream writes there before its routers run."""
    assert stream.spec.repartition is not None
    cluster = Cluster(stream.spec.kafka.bootstrap_servers)
    controller = GrowthController(stream, {}, cluster)
    while controller.step(stream.spec.repartition.partitions, {}):
        pass


class RouterProcess:
    """A run of a router, in its own process group; it dies with this process."""

    def __init__(
        self,
        stream: RoutedStream,
        number: int,
        directory: Path,
        crash: RouterCrash | None = None,
        *,
        arguments: Sequence[str | Path] = (),
    ) -> None:
        self.number = number
        run = len(list(directory.glob(f"{stream.name}-router-{number}.*.log")))
        self.log_path = directory / f"{stream.name}-router-{number}.{run}.log"
        self._endpoint = self.log_path.with_suffix(".endpoint")
        options: list[str | Path] = ["--config", stream.manifest, "--router", str(number)]
        options += ["--http", "127.0.0.1:0", "--endpoint-file", self._endpoint, *arguments]
        module = "tests.support.crashes.crashing_router" if crash else "dedupe_router"
        environment = crash.environment if crash else {}
        self.process = ForkedProcess(module, options, self.log_path, environment)

    def get(self, path: str) -> httpx.Response:
        """GET a path of the router; wait until it has an address."""
        self.wait_until(self._endpoint.exists, "it has an HTTP endpoint")
        return HTTP.get(f"http://{self._endpoint.read_text().strip()}{path}", timeout=_HTTP_SECONDS)

    def status(self) -> RouterStatus:
        """GET /status."""
        return RouterStatus.model_validate_json(self.get("/status").raise_for_status().content)

    def wait_until(
        self, condition: Callable[[], object], what: str, *, deadline_seconds: float = 90.0
    ) -> None:
        """Wait for a condition. Raises AssertionError, with the log, if it ends first."""

        def holds() -> object:
            held = condition()
            if not held and (code := self.process.poll()) is not None:
                raise AssertionError(f"ended with {code} before: {what}\n{self.log()}")
            return held

        wait_for(holds, what, deadline_seconds=deadline_seconds, explain=self.log)

    def wait_until_ready(self) -> None:
        """Wait until it is a member of the group, and routes."""
        self.wait_until(lambda: self.get("/readyz").status_code == 200, "it is ready")

    def sigterm(self) -> int:
        """Send SIGTERM; return the exit code."""
        self.process.terminate()
        return self.process.wait()

    def sigkill(self) -> None:
        """Send SIGKILL, and wait for its end."""
        self.process.kill()
        self.process.wait()

    def log(self) -> str:
        """Return the last lines of its log."""
        return "\n".join(self.log_path.read_text().splitlines()[-20:])


class Routers:
    """Starts routers for a test, which end with it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[RouterProcess] = []

    def start(
        self,
        stream: RoutedStream,
        number: int = 0,
        *,
        crash: RouterCrash | None = None,
        arguments: Sequence[str | Path] = (),
    ) -> RouterProcess:
        """Start a router.

        `crash` is where it kills or stops itself; `arguments` are added to its command line.
        """
        router = RouterProcess(stream, number, self._directory, crash, arguments=arguments)
        self._started.append(router)
        return router

    def end_all(self) -> None:
        """Kill the routers that still run."""
        for router in self._started:
            router.sigkill()
