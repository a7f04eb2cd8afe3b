"""S3 provider: copies in a bucket, which only the partition's worker can access.

The provider asks the worker over HTTP to upload or delete; a new worker downloads at its start.
"""

from collections.abc import Sequence
from datetime import datetime

from pydantic import ValidationError

from dedupe_crds.status.worker import DownloadPhase, UploadPhase, UploadStatus, WorkerStatus
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.snapshots.metadata import with_checkpoint
from dedupe_operator.snapshots.provider import (
    ClaimSource,
    CopyStatus,
    Job,
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

    def failure(self, events: Sequence[Object], now: datetime) -> str | None:  # noqa: ARG002 # the worker fills an empty volume
        """Return None: the worker fills an empty volume."""
        return None

    def source(self, job: Job, claim_name: str) -> ClaimSource:  # noqa: ARG002 # any empty volume is suitable
        """Return an empty volume, which its worker fills (see resources/pod_template.py)."""
        return ClaimSource()

    def _begin(self, job: Job) -> UploadStatus:
        answer = self._post(job, "/snapshots", {"name": job.snapshot})
        try:
            return UploadStatus.model_validate(answer)
        except ValidationError as error:
            message = f"the worker's response is not valid: {error}"
            raise ProviderFailed("WorkerResponseInvalid", message) from error

    def _post(self, job: Job, path: str, body: dict[str, object]) -> object:
        try:
            return self._workers.post(job.pod, path, body, job.admin_token)
        except WorkerRefused as error:
            raise refused_by_worker(error) from error


def failed_restore(snapshot: str, worker: WorkerStatus | None) -> str | None:
    """Return why a worker could not download a snapshot, None if it reports none."""
    download = worker.download if worker else None
    if download is None or download.name != snapshot:
        return None
    failed = download.phase is DownloadPhase.FAILED
    return (download.error or "the download failed") if failed else None
