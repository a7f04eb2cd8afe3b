"""Choose what follows each check of a running worker's topics.

Report an open transaction that holds the input back, and input partitions that no worker reads. If routers write the
input, delete what is committed of it instead of the latter, and report that few numbers are left for its origins.
"""

from collections.abc import Callable

from dedupe_crds.clock import Clock
from dedupe_worker.kafka.added_partitions import AddedPartitions
from dedupe_worker.kafka.admin import Topic, Topics
from dedupe_worker.kafka.consumer import PartitionReader
from dedupe_worker.kafka.held_input import HeldInput
from dedupe_worker.kafka.input_trim import InputTrim
from dedupe_worker.kafka.key_sample import KeyCounter
from dedupe_worker.kafka.producer import PartitionOutput
from dedupe_worker.kafka.topic_watch import TopicWatch
from dedupe_worker.origins import Origins
from dedupe_worker.status import Degraded, WorkerState


def follow_up(  # noqa: PLR0917 (of one session, each once)
    topics: Topics,
    input_topic: Topic,
    output_topic: Topic,
    reader: PartitionReader,
    output: PartitionOutput,
    keys: KeyCounter,
    *,
    partition: int,
    servers: str,
    origins: Origins | None,
    worker_state: WorkerState,
    clock: Clock,
) -> Callable[[TopicWatch], None]:
    """Return what to do after each check; it may raise StreamError."""
    held = HeldInput(reader, partition, servers, worker_state, clock)
    if origins is not None:
        trim = InputTrim(
            topics,
            input_topic.name,
            partition,
            clock=clock,
            degradations=worker_state.degradations,
        )

        def follow(watch: TopicWatch) -> None:
            held.check(watch.stable_end)
            trim.run(output.committed, is_same=watch.is_described)
            if problem := origins.problem:
                worker_state.degradations.hold(Degraded.FEW_ORIGINS_LEFT, problem)

        return follow
    added = AddedPartitions(topics, input_topic, output_topic)
    keys.begin(input_topic.partitions)

    def show(watch: TopicWatch) -> None:
        held.check(watch.stable_end)
        partitions = watch.input_partitions
        keys.begin(partitions)
        problem = added.problem(reader, partitions)
        worker_state.show_partitions(partitions, keys.sample, problem)

    return show
