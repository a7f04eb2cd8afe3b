"""The restore ladder with its facts: what Kafka and the providers say of the copies a partition could be made from."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from dedupe_crds.annotations import OUTPUT_TOPIC
from dedupe_crds.spec.store import SnapshotProvider
from dedupe_crds.status.snapshot import SnapshotPhase
from dedupe_crds.status.stream import PartitionStatus, RestoreSource
from dedupe_crds.status.worker import ExitCode
from dedupe_kafka.errors import StreamError
from dedupe_operator.controller.context import Look
from dedupe_operator.credentials import CredentialsUnusable
from dedupe_operator.decide import diagnosis as trouble
from dedupe_operator.decide import volume_claims as claims
from dedupe_operator.decide.restore_source import Candidate, Rung, climb
from dedupe_operator.decide.snapshot_policy import Snapshot
from dedupe_operator.decide.volume_claims import ClaimChoice, Trouble, Vacancy
from dedupe_operator.kubernetes.api import CLAIMS
from dedupe_operator.snapshots.provider import Provider, ProviderError, Source
from dedupe_operator.snapshots.runner import job_for
from dedupe_operator.snapshots.s3 import failed_restore
from dedupe_operator.topic_watch import partition_state

_NOT_OURS: Final = "holds the store of another stream or partition, as its worker found"


class Restorer:
    """Finds what partitions are made from. What failed once is remembered, until the operator ends."""

    def __init__(self, providers: Mapping[SnapshotProvider, Provider]) -> None:
        self._providers = providers
        self._failed: dict[tuple[str | None, int, str], str] = {}

    def trouble(self, look: Look, partition: int) -> Trouble:
        """What is wrong with a partition's claim, or with what it is to be made from. Raises ProviderError."""
        recorded = look.recorded_partition(partition)
        if recorded is None or recorded.restore is None:
            return Trouble()
        restore, name = recorded.restore, recorded.restore.name or ""
        if restore.source is RestoreSource.CHECKPOINT:
            why = failed_restore(name, look.workers.get(partition))
            if why:
                return Trouble(source=why, keep_claim=True)
        if restore.source is RestoreSource.SNAPSHOT and not _is_bound(look, recorded):
            return Trouble(source=self._why_gone(look, partition, name))
        if _refused_by_its_worker(look, recorded):
            return Trouble(unusable=_NOT_OURS)
        return Trouble()

    def choose(self, look: Look, partition: int, vacancy: Vacancy) -> ClaimChoice:
        """Choose the source of a partition's store. Raises ProviderError while it can't be told."""
        request, recorded = vacancy.request, look.recorded_partition(partition)
        candidates = self._candidates(look, partition, vacancy)
        if request and request.source == OUTPUT_TOPIC:
            return claims.fill(vacancy, Rung(source=RestoreSource.OUTPUT_TOPIC), look.now)
        if request and recorded and not candidates:
            reason = f"{request.source}: there is no such DedupeSnapshot"
            return claims.refuse(recorded, request, reason)
        rung = self._climb(look, partition, candidates)
        if request and recorded and rung.source is RestoreSource.OUTPUT_TOPIC:
            return claims.refuse(recorded, request, rung.refused[0])
        return claims.fill(vacancy, rung, look.now)

    def source(self, look: Look, partition: int, choice: ClaimChoice) -> Source:
        """What a new claim is made from. Raises ProviderError; a final one moves the next look to another rung."""
        restore = choice.restore
        found = _named(look, restore.name)
        entry = found.entry(partition) if found else None
        if restore.source is not RestoreSource.SNAPSHOT:
            return Source()
        if found is None or entry is None or found.status.provider is None:
            raise ProviderError("SnapshotGone", f"{restore.name} was deleted", final=True)
        job = job_for(look, found, entry)
        try:
            return self._providers[found.status.provider].source(job, choice.name)
        except ProviderError as error:
            if error.final:
                self._failed[look.stream.metadata.uid, partition, found.name] = str(error)
            raise

    def _candidates(self, look: Look, partition: int, vacancy: Vacancy) -> list[Candidate]:
        """The copies to choose from: the one that was asked for, or all that were made of this partition."""
        wanted = vacancy.request.source if vacancy.request else None
        found = [
            one
            for one in look.observed.snapshots
            if (one.name == wanted if wanted else self._is_of(look, one, partition))
        ]
        return [
            Candidate(
                name=one.name,
                stream=one.stream,
                provider=one.status.provider or SnapshotProvider.CSI,
                entry=one.entry(partition),
                gone="it is being deleted" if one.deleting else None,
                failed=vacancy.tried.get(one.name),
            )
            for one in found
        ]

    @staticmethod
    def _is_of(look: Look, snapshot: Snapshot, partition: int) -> bool:
        entry = snapshot.entry(partition)
        ours = snapshot.stream == look.stream.metadata.name
        return ours and entry is not None and entry.phase is SnapshotPhase.COMPLETED

    def _climb(self, look: Look, partition: int, candidates: list[Candidate]) -> Rung:
        """Choose, asking the providers only for what would be chosen."""
        if not candidates:
            return Rung(source=RestoreSource.OUTPUT_TOPIC)
        try:
            now = partition_state(look.stream, look.kafka_secret, partition)
        except StreamError as error:
            raise ProviderError(error.reason, str(error), final=False) from error
        except CredentialsUnusable as error:
            problem = error.problem
            raise ProviderError(problem.reason, problem.message, final=False) from error
        name = look.stream.metadata.name
        known = {one.name: one for one in candidates}
        while (rung := climb(list(known.values()), stream=name, now=now)).name:
            why = self._why_gone(look, partition, rung.name)
            if why is None:
                return rung
            known[rung.name] = replace(known[rung.name], gone=why)
        return rung

    def _why_gone(self, look: Look, partition: int, name: str) -> str | None:
        """Why a copy can't be restored from, as its provider says; None if it can."""
        if failed := self._failed.get((look.stream.metadata.uid, partition, name)):
            return failed
        found = _named(look, name)
        entry = found.entry(partition) if found else None
        if found is None or found.deleting or entry is None or found.status.provider is None:
            return "it was deleted"
        job = job_for(look, found, entry)
        there = self._providers[found.status.provider].is_there(job)
        return None if there else f"its copy {entry.handle} is gone"


def _named(look: Look, name: str | None) -> Snapshot | None:
    return next((one for one in look.observed.snapshots if one.name == name), None)


def _is_bound(look: Look, recorded: PartitionStatus) -> bool:
    claim = look.observed.children.get((CLAIMS.kind, recorded.persistent_volume_claim or ""))
    return claims.is_bound(claim)


def _refused_by_its_worker(look: Look, recorded: PartitionStatus) -> bool:
    """Whether the worker on the recorded volume ended because that is another's."""
    pod = look.observed.pods.get(recorded.partition)
    mounted = trouble.mounted_claim(pod) == recorded.persistent_volume_claim
    return mounted and trouble.exit_code(pod) == ExitCode.IDENTITY_REFUSED
