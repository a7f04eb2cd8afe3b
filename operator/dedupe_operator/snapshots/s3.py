"""S3 provider: copies in a bucket, which only the partition's worker can access.

The provider asks the worker over HTTP to upload or delete; a new worker downloads at its start.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from pydantic import ValidationError

from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.copy_location import CopyLocation
from dedupe_crds.status.worker import DownloadPhase, UploadPhase, UploadStatus, WorkerStatus
from dedupe_operator.decide.pod_readiness import is_ready
from dedupe_operator.kubernetes.names import CONFIG_HASH, Object
from dedupe_operator.resources.config_map import config_hash
from dedupe_operator.snapshots.metadata import with_checkpoint
from dedupe_operator.snapshots.provider import (
    ClaimSource,
    CopyStatus,
    Job,
    LeftBehind,
    ProviderError,
    ProviderFailed,
    refused_by_worker,
)
from dedupe_operator.worker_client import WorkerClient, WorkerRefused


class S3Provider:
    """Provider that commands workers; each call returns while the worker works."""

    takes_checkpoint = True

    def __init__(self, workers: WorkerClient) -> None:
        self._workers = workers

    def start(self, job: Job) -> str:
        """Start the worker's upload, or adopt one of that name that runs or has ended."""
        status = self._begin(job)
        return status.handle or job.snapshot

    def status(self, job: Job) -> CopyStatus:
        """Return the state of the upload; a restarted worker is asked to resume it."""
        status = self._begin(job)
        if status.phase is UploadPhase.FAILED:
            raise ProviderError("UploadFailed", status.error or "the upload failed")
        entry = with_checkpoint(job.entry, status.checkpoint) if status.checkpoint else job.entry
        entry = entry.model_copy(
            update={"handle": status.handle or job.entry.handle, "uploaded_bytes": status.new_bytes}
        )
        usable = status.phase is UploadPhase.COMPLETED
        return CopyStatus(usable=usable, bytes=status.total_bytes, entry=entry)

    def remove(self, job: Job) -> None:
        """Ask the worker to delete the copy, with the files that no other copy needs."""
        self._post(job, "/snapshots/delete", {"names": [job.snapshot]})

    def exists(self, job: Job) -> bool:  # noqa: ARG002 # only the restoring worker knows
        """Return True: it is unknown until the worker of the new volume tries."""
        return True

    def is_readable(self, job: Job) -> bool:
        """Ask the worker whether the copy's manifest can be read where it lies."""
        if not is_ready(job.pod):
            raise ProviderError("WorkerNotRunning", "the partition's worker is not ready")
        answer = self._post(job, "/snapshots/check", {"name": job.snapshot})
        return isinstance(answer, dict) and bool(answer.get("present"))

    def location(self, job: Job) -> CopyLocation | None:
        """Return the bucket of the stream's settings, and where in it."""
        snapshots = job.stream.spec.snapshots
        return CopyLocation.of(snapshots.s3) if snapshots and snapshots.s3 else None

    def failure(self, events: Sequence[Object], now: datetime) -> str | None:  # noqa: ARG002 # the worker fills an empty volume
        """Return None: the worker fills an empty volume."""
        return None

    def source(self, job: Job, claim_name: str) -> ClaimSource:  # noqa: ARG002 # any empty volume is suitable
        """Return an empty volume, which its worker fills (see resources/pod_template.py)."""
        return ClaimSource()

    def provision(self, job: Job, claim: Object) -> None:
        """Do nothing: any driver creates an empty volume."""

    def remove_left_behind(
        self,
        stream: DedupeStream,  # noqa: ARG002 # any driver has made the volumes
        locations: Collection[CopyLocation],  # noqa: ARG002 # as above
    ) -> LeftBehind:
        """Return that there is nothing: no volume is made here."""
        return LeftBehind()

    def _begin(self, job: Job) -> UploadStatus:
        answer = self._post(job, "/snapshots", {"name": job.snapshot})
        try:
            return UploadStatus.model_validate(answer)
        except ValidationError as error:
            message = f"the worker's response is not valid: {error}"
            raise ProviderFailed("WorkerResponseInvalid", message) from error

    def _post(self, job: Job, path: str, body: dict[str, object]) -> object:
        """Ask the worker, and say where the copy lies unless it knows."""
        location = job.entry.location or self.location(job)
        elsewhere = location if location and not self._is_own(job, location) else None
        if elsewhere:
            body = {**body, "location": elsewhere.model_dump(mode="json", exclude_none=True)}
        try:
            return self._workers.post(job.pod, path, body, job.admin_token)
        except WorkerRefused as error:
            if elsewhere and error.reason == "BadRequest":
                message = f"the worker's release does not know where copies lie: {error}"
                raise ProviderError("WorkerTooOld", message) from error
            raise refused_by_worker(error) from error

    def _is_own(self, job: Job, location: CopyLocation) -> bool:
        """Return whether a worker's own settings, read at its start, are this location."""
        annotations = (job.pod or {}).get("metadata", {}).get("annotations") or {}
        read = annotations.get(CONFIG_HASH, "").partition("-")[0]
        return location == self.location(job) and read == config_hash(job.stream)


def failed_restore(snapshot: str, worker: WorkerStatus | None) -> str | None:
    """Return why a worker could not download a snapshot, None if it reports none."""
    download = worker.download if worker else None
    if download is None or download.name != snapshot:
        return None
    failed = download.phase is DownloadPhase.FAILED
    return (download.error or "the download failed") if failed else None
