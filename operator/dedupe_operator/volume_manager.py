"""Every partition's volume: kept, taken over, or made anew from the best source there is."""

from typing import Final

from dedupe_crds.annotations import RestoreRequest, restore_request
from dedupe_crds.status.stream import PartitionPhase, PartitionStatus
from dedupe_operator import metrics
from dedupe_operator.controller.context import ReconcileContext, ReconcileResult
from dedupe_operator.decide import volume_claims as claims
from dedupe_operator.decide.diagnosis import with_advice
from dedupe_operator.decide.stream_status import StreamEvent
from dedupe_operator.decide.volume_claims import ClaimChoice
from dedupe_operator.snapshots.provider import ProviderError
from dedupe_operator.snapshots.restoring import Restorer

_REQUEUE_SECONDS: Final = 5.0


class Volumes:
    """Chooses the claims of a stream's partitions."""

    def __init__(self, restorer: Restorer) -> None:
        self._restorer = restorer

    def choose(
        self, context: ReconcileContext, result: ReconcileResult
    ) -> list[PartitionStatus] | None:
        """Choose; returns the partitions as they are to be on record before anything is done, None if they are.

        A partition whose source can't be told now keeps what it has, and is left alone.
        """
        request = restore_request(context.stream.metadata.annotations)
        for partition in context.partitions:
            asked = request if request and request.partition == partition else None
            try:
                result.claims[partition] = self._choose(context, result, partition, asked)
            except ProviderError as error:
                self._leave(context, result, partition, error)
        news = [one for one, choice in result.claims.items() if _is_news(context, one, choice)]
        for partition in news:
            _tell(context, result, partition, result.claims[partition])
        return [_intended(context, result, one) for one in result.claims] if news else None

    def _choose(
        self,
        context: ReconcileContext,
        result: ReconcileResult,
        partition: int,
        request: RestoreRequest | None,
    ) -> ClaimChoice:
        trouble = self._restorer.trouble(context, partition)
        rolled_out = claims.settle(
            context.stream.metadata.name,
            partition,
            recorded=context.recorded_partition(partition),
            live=context.observed.claims.get(partition, ()),
            class_name=context.stream.spec.storage.storage_class_name,
            output_created=context.topics.created,
            now=context.now,
            request=request,
            trouble=trouble,
        )
        if isinstance(rolled_out, ClaimChoice):
            return rolled_out
        choice = self._restorer.choose(context, partition, rolled_out)
        recorded = context.recorded_partition(partition)
        known = recorded.persistent_volume_claim if recorded else None
        for name, why in rolled_out.tried.items():
            if why == trouble.source:
                message = f"Partition {partition} could not be restored from {name}: {why}."
                if rolled_out.name != known:
                    message += f" Volume claim {known} got no volume; it can be deleted."
                result.events.append(
                    StreamEvent(reason="RestoreFailed", message=message, warning=True)
                )
        if trouble.unusable and trouble.unusable in rolled_out.reason:
            message = f"Partition {partition}: {rolled_out.reason}. It is left as it is."
            result.events.append(StreamEvent(reason="VolumeRefused", message=message, warning=True))
        return choice

    @staticmethod
    def _leave(
        context: ReconcileContext, result: ReconcileResult, partition: int, error: ProviderError
    ) -> None:
        message = f"what its store is to be made from can't be told: {error}"
        result.partition_problems[partition] = with_advice(error.reason, message)
        result.undecided.add(partition)
        result.requeue_within(_REQUEUE_SECONDS)
        recorded = context.recorded_partition(partition)
        if recorded and recorded.restore and recorded.persistent_volume_claim:
            name = recorded.persistent_volume_claim
            result.claims[partition] = ClaimChoice(
                name=name, restore=recorded.restore, is_new=False
            )


def _is_news(context: ReconcileContext, partition: int, choice: ClaimChoice) -> bool:
    recorded = context.recorded_partition(partition)
    return choice.is_new or recorded is None or recorded.restore != choice.restore


def _intended(
    context: ReconcileContext, result: ReconcileResult, partition: int
) -> PartitionStatus:
    choice = result.claims[partition]
    recorded = context.recorded_partition(partition)
    if recorded is not None and not choice.is_new:
        return recorded.model_copy(update={"restore": choice.restore})
    return PartitionStatus(
        partition=partition,
        phase=PartitionPhase.PROVISIONING,
        persistent_volume_claim=choice.name,
        restore=choice.restore,
        comparison=recorded.comparison if recorded else None,
        failover=recorded.failover if recorded else None,
    )


def _tell(
    context: ReconcileContext, result: ReconcileResult, partition: int, choice: ClaimChoice
) -> None:
    restore = choice.restore
    if restore.refused:
        message = f"Partition {partition} is not restored from {'; '.join(restore.refused)}."
        result.events.append(StreamEvent(reason="SnapshotRefused", message=message, warning=True))
    if not choice.is_new:
        return
    origin = f" from {restore.name}" if restore.name and restore.name != choice.name else ""
    message = f"Partition {partition} has its store on {choice.name}{origin}: {restore.reason}."
    result.events.append(StreamEvent(reason=f"StoreFrom{restore.source}", message=message))
    metadata = context.stream.metadata
    metrics.RESTORES.labels(metadata.namespace, metadata.name, restore.source.value).inc()
