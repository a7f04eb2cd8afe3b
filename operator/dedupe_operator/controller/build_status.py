"""Build a stream's status from what a pass has found.

The reconciler calls it at the end.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

from dedupe_crds.status.partitions import GROUP_SIZE
from dedupe_crds.status.stream import AddedPartition, StreamStatus
from dedupe_crds.status.worker import WorkerStatus
from dedupe_kafka.partitioning import judge_stream
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.decide import conditions, router_status
from dedupe_operator.decide.conditions import Health
from dedupe_operator.decide.diagnosis import Problem
from dedupe_operator.decide.partition_status import PartitionView, status_of
from dedupe_operator.decide.rounding import coarse_count
from dedupe_operator.decide.router_status import RoutersView
from dedupe_operator.decide.stream_status import assemble
from dedupe_operator.output_conflicts import known_topics
from dedupe_operator.snapshots.manager import SnapshotsView


def build_status(
    context: ReconcileContext,
    result: ReconcileResult,
    views: Sequence[PartitionView],
    snapshots: SnapshotsView,
    problems: Sequence[Problem],
    *,
    routers: RoutersView | None = None,
) -> StreamStatus:
    """Return the status of a stream after this pass."""
    partitions = [
        status_of(
            view, context.recorded_partition(view.partition), snapshots.last.get(view.partition)
        )
        for view in views
    ]
    workers = {view.partition: view.worker for view in views if view.worker}
    samples = [worker.input.keys for worker in workers.values() if worker.input.keys]
    topics = context.topics
    # What is asked by the new manifest does not hold yet for workers that run by the one before.
    direct = context.growth is not None and context.growth.direct
    added = topics.added if topics.partitions and not direct else None
    of_routers = router_status.status_of(routers, context.recorded.routers) if routers else None
    health = Health(
        partitions=partitions,
        added=None if added is None else list(added),
        partitioning=None if direct else judge_stream(samples, context.stream.spec),
        problems=problems,
        waiting=result.waiting,
        starting=result.starting,
        routers_change=result.routers_change,
        unhealthy_windows=_unhealthy_windows(workers),
        workers=workers,
        suspended=context.stream.spec.suspend,
        snapshots=snapshots.verdict,
        routers=of_routers,
        growth=context.growth,
        joining=context.joining,
    )
    judged = conditions.judge(
        health, generation=context.generation, earlier=context.recorded.conditions, now=context.now
    )
    status = assemble(
        generation=context.generation,
        conditions=judged,
        partitions=partitions,
        routers=of_routers,
        workers=workers.values(),
    )
    return status.model_copy(
        update={
            "last_schedule_time": snapshots.last_schedule_time,
            "added_partitions": _waiting(added, context.recorded),
            "topic_ids": known_topics(context.stream.spec, topics.held)
            or context.recorded.topic_ids,
            "growth": (context.growth and context.growth.status) or context.recorded.growth,
        }
    )


def _waiting(
    added: Mapping[int, int] | None, recorded: StreamStatus
) -> list[AddedPartition] | None:
    """Return the first added partitions; those of before if Kafka did not answer."""
    if added is None:
        return recorded.added_partitions
    waiting = [
        AddedPartition(partition=partition, lag_messages=coarse_count(lag))
        for partition, lag in islice(added.items(), GROUP_SIZE)
    ]
    return waiting or None


def _unhealthy_windows(workers: Mapping[int, WorkerStatus]) -> list[int] | None:
    if not workers:
        return None
    return [partition for partition, worker in workers.items() if not worker.window.healthy]
