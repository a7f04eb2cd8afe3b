"""Every partition's volume: kept, taken over, or made anew from the best source there is."""

from typing import Final

from dedupe_crds.annotations import RestoreRequest, restore_request
from dedupe_crds.status.stream import PartitionPhase, PartitionStatus
from dedupe_operator import metrics
from dedupe_operator.controller.context import Findings, Look
from dedupe_operator.decide import volume_claims as claims
from dedupe_operator.decide.diagnosis import with_advice
from dedupe_operator.decide.stream_status import Notice
from dedupe_operator.decide.volume_claims import ClaimChoice
from dedupe_operator.snapshots.provider import ProviderError
from dedupe_operator.snapshots.restoring import Restorer

_LOOK_AGAIN_SECONDS: Final = 5.0


class Volumes:
    """Chooses the claims of a stream's partitions."""

    def __init__(self, restorer: Restorer) -> None:
        self._restorer = restorer

    def choose(self, look: Look, findings: Findings) -> list[PartitionStatus] | None:
        """Choose; returns the partitions as they are to be on record before anything is done, None if they are.

        A partition whose source can't be told now keeps what it has, and is left alone.
        """
        request = restore_request(look.stream.metadata.annotations)
        for partition in look.partitions:
            asked = request if request and request.partition == partition else None
            try:
                findings.claims[partition] = self._choose(look, findings, partition, asked)
            except ProviderError as error:
                self._leave(look, findings, partition, error)
        news = [one for one, choice in findings.claims.items() if _is_news(look, one, choice)]
        for partition in news:
            _tell(look, findings, partition, findings.claims[partition])
        return [_intended(look, findings, one) for one in findings.claims] if news else None

    def _choose(
        self, look: Look, findings: Findings, partition: int, request: RestoreRequest | None
    ) -> ClaimChoice:
        trouble = self._restorer.trouble(look, partition)
        settled = claims.settle(
            look.stream.metadata.name,
            partition,
            recorded=look.recorded_partition(partition),
            live=look.observed.claims.get(partition, ()),
            class_name=look.stream.spec.storage.storage_class_name,
            output_created=look.topics.created,
            now=look.now,
            request=request,
            trouble=trouble,
        )
        if isinstance(settled, ClaimChoice):
            return settled
        choice = self._restorer.choose(look, partition, settled)
        recorded = look.recorded_partition(partition)
        known = recorded.persistent_volume_claim if recorded else None
        for name, why in settled.tried.items():
            if why == trouble.source:
                message = f"Partition {partition} could not be restored from {name}: {why}."
                if settled.name != known:
                    message += f" Volume claim {known} got no volume; it can be deleted."
                findings.notices.append(
                    Notice(reason="RestoreFailed", message=message, warning=True)
                )
        if trouble.unusable and trouble.unusable in settled.reason:
            message = f"Partition {partition}: {settled.reason}. It is left as it is."
            findings.notices.append(Notice(reason="VolumeRefused", message=message, warning=True))
        return choice

    @staticmethod
    def _leave(look: Look, findings: Findings, partition: int, error: ProviderError) -> None:
        message = f"what its store is to be made from can't be told: {error}"
        findings.partition_problems[partition] = with_advice(error.reason, message)
        findings.undecided.add(partition)
        findings.look_again_within(_LOOK_AGAIN_SECONDS)
        recorded = look.recorded_partition(partition)
        if recorded and recorded.restore and recorded.persistent_volume_claim:
            name = recorded.persistent_volume_claim
            findings.claims[partition] = ClaimChoice(
                name=name, restore=recorded.restore, is_new=False
            )


def _is_news(look: Look, partition: int, choice: ClaimChoice) -> bool:
    recorded = look.recorded_partition(partition)
    return choice.is_new or recorded is None or recorded.restore != choice.restore


def _intended(look: Look, findings: Findings, partition: int) -> PartitionStatus:
    choice = findings.claims[partition]
    recorded = look.recorded_partition(partition)
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


def _tell(look: Look, findings: Findings, partition: int, choice: ClaimChoice) -> None:
    restore = choice.restore
    if restore.refused:
        message = f"Partition {partition} is not restored from {'; '.join(restore.refused)}."
        findings.notices.append(Notice(reason="SnapshotRefused", message=message, warning=True))
    if not choice.is_new:
        return
    origin = f" from {restore.name}" if restore.name and restore.name != choice.name else ""
    message = f"Partition {partition} has its store on {choice.name}{origin}: {restore.reason}."
    findings.notices.append(Notice(reason=f"StoreFrom{restore.source}", message=message))
    metadata = look.stream.metadata
    metrics.RESTORES.labels(metadata.namespace, metadata.name, restore.source.value).inc()
