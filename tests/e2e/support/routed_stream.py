"""A stream with routers on a cluster."""

from dataclasses import dataclass, fields
from typing import Any
from uuid import uuid4

from dedupe_crds.spec.stream import GROUP
from dedupe_crds.status.stream import RoutersStatus
from tests.e2e.support.kubectl import Object
from tests.e2e.support.namespaces import SMALL
from tests.e2e.support.scene import Scene
from tests.e2e.support.stream import ClusterStream
from tests.support.checker.checker import Verdict
from tests.support.checker.id_sources import IdOf
from tests.support.checker.repartitioned import judge_repartitioned
from tests.support.processes.routers import RoutedStream
from tests.support.traffic.streams import stream_manifest


@dataclass(frozen=True, kw_only=True)
class RoutedClusterStream(ClusterStream, RoutedStream):
    """A stream with routers in a namespace; what is said of the input is of the repartition topic."""

    __test__ = False

    def routers(self) -> RoutersStatus:
        """The status of its routers."""
        found = self.status().routers
        assert found is not None, "the status has no routers"
        return found

    def router_pods(self) -> dict[str, Object]:
        """The pods of its routers by name, without those that are on their way out."""
        pods = self.kubectl.items("pods", f"{GROUP}/routers-of={self.name}")
        return {
            pod["metadata"]["name"]: pod
            for pod in pods
            if not pod["metadata"].get("deletionTimestamp")
        }

    def wait_for_routers(self, count: int) -> None:
        """Wait until so many routers are wanted, and all of them are ready."""

        def ready() -> bool:
            found = self.status().routers
            return found is not None and found.replicas == found.ready == count

        self.wait_until(ready, f"{count} routers are ready")

    def wait_until_through(self) -> None:
        """Wait until all of the inputs is routed, and the workers have read that."""
        self.wait_until(self.is_routed, "all of the inputs is routed")
        ends = self.ends()

        def read() -> bool:
            return all(
                self.worker_status(partition).input.next_offset >= end
                for partition, end in ends.items()
            )

        self.wait_until(read, f"the workers have read up to {ends}")
        self.settle()

    def judge(self, id_of: IdOf) -> Verdict:
        """Wait until all is through, and assert that each id passed once."""
        self.wait_until_through()
        verdict = judge_repartitioned(self.raws(), self.clean(), id_of)
        verdict.assert_exactly_once(1, or_more=True)
        return verdict


def routed_stream(
    place: Scene,
    title: str,
    *,
    inputs: tuple[int, ...],
    partitions: int,
    routers: int,
    **spec: Any,  # noqa: ANN401 # any field of a spec
) -> RoutedClusterStream:
    """Make the inputs, with so many partitions each, and write the manifest of the stream."""
    name = f"{title}-{uuid4().hex[:6]}"
    names = tuple(
        place.topics.create(f"{name}-in-{number}", count) for number, count in enumerate(inputs)
    )
    output = f"{name}-clean"
    repartition = {"partitions": partitions, "routers": {"replicas": routers}}
    reached = place.cluster.kafka_bootstrap_in_cluster
    wanted = {**SMALL, "input": {"topics": list(names)}, "repartition": repartition, **spec}
    written = stream_manifest(place.directory, reached, name, output, **wanted)
    return RoutedClusterStream(
        name=name,
        namespace=place.namespace,
        bootstrap_servers=place.topics.bootstrap_servers,
        input_topic=f"{output}-repartition",
        output_topic=output,
        manifest=written.manifest,
        kubectl=place.kubectl,
        partitions=partitions,
        inputs=names,
    )


def with_routers(stream: ClusterStream, partitions: int) -> RoutedClusterStream:
    """Return a stream without routers as it is once it has them."""
    given = {each.name: getattr(stream, each.name) for each in fields(stream)}
    return RoutedClusterStream(
        **given
        | {
            "input_topic": f"{stream.output_topic}-repartition",
            "inputs": (stream.input_topic,),
            "partitions": partitions,
        }
    )
