"""Make the volume of a restore: first its claim, then what the claim waits for.

The applier calls it. The API server decides about the claim, by quotas and webhooks, before anything is made that costs
money. It remembers copies that failed; they are tried again after a while, or if a user asks for it.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final, TypeVar

from dedupe_crds.spec.snapshots import SnapshotProvider
from dedupe_crds.status.stream import RestoreSource
from dedupe_operator.controller.context import ReconcileContext
from dedupe_operator.decide.snapshot_policy import Snapshot
from dedupe_operator.decide.volume_claims import ClaimChoice, is_bound
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.snapshots.copy_jobs import job_for
from dedupe_operator.snapshots.provider import (
    ClaimSource,
    Job,
    Provider,
    ProviderError,
    ProviderFailed,
)

_FAILED_FOR: Final = timedelta(minutes=30)

_Result = TypeVar("_Result")


class RestoreVolumes:
    """Maker of the volumes of all streams, from copies of any provider."""

    def __init__(self, providers: Mapping[SnapshotProvider, Provider]) -> None:
        self._providers = providers
        self._failed: dict[tuple[str | None, int, str], tuple[datetime, str]] = {}

    def failure(self, context: ReconcileContext, partition: int, name: str) -> str | None:
        """Return why a snapshot has failed for a partition a short time ago."""
        failed = self._failed.get((context.stream.metadata.uid, partition, name))
        return failed[1] if failed and context.now - failed[0] < _FAILED_FOR else None

    def retry(self, context: ReconcileContext, partition: int, name: str) -> None:
        """Forget that a snapshot has failed for a partition."""
        self._failed.pop((context.stream.metadata.uid, partition, name), None)

    def source(self, context: ReconcileContext, partition: int, choice: ClaimChoice) -> ClaimSource:
        """Return the source of a claim that does not exist yet.

        Raises ProviderError. After ProviderFailed the next pass chooses another restore source.
        """
        if choice.restore.source is not RestoreSource.SNAPSHOT:
            return ClaimSource()
        return self._call(
            context, partition, choice, lambda provider, job: provider.source(job, choice.name)
        )

    def provision(
        self, context: ReconcileContext, partition: int, choice: ClaimChoice, claim: Object
    ) -> None:
        """Make the volume that a claim waits for. Raises ProviderError, as `source`."""
        if choice.restore.source is RestoreSource.SNAPSHOT and not is_bound(claim):
            self._call(
                context, partition, choice, lambda provider, job: provider.provision(job, claim)
            )

    def _call(
        self,
        context: ReconcileContext,
        partition: int,
        choice: ClaimChoice,
        act: Callable[[Provider, Job], _Result],
    ) -> _Result:
        snapshot = named_snapshot(context, choice.restore.name)
        entry = snapshot.entry(partition) if snapshot else None
        if snapshot is None or entry is None or snapshot.status.provider is None:
            raise ProviderFailed("SnapshotGone", f"{choice.restore.name} was deleted")
        try:
            return act(self._providers[snapshot.status.provider], job_for(context, snapshot, entry))
        except ProviderError as error:
            if not error.retriable:
                failed = (context.stream.metadata.uid, partition, snapshot.name)
                self._failed[failed] = (context.now, str(error))
            raise


def named_snapshot(context: ReconcileContext, name: str | None) -> Snapshot | None:
    """Return a DedupeSnapshot by its name, None without one."""
    return next((each for each in context.observed.snapshots if each.name == name), None)
