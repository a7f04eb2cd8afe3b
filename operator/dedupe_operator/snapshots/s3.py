"""Copies in a bucket. Their partition's worker writes, reads and deletes them: only it has the credentials."""

from pydantic import ValidationError

from dedupe_crds.status.worker import DownloadPhase, UploadPhase, UploadStatus, WorkerStatus
from dedupe_operator.snapshots.metadata import stamped
from dedupe_operator.snapshots.provider import Copy, Job, ProviderError, Source
from dedupe_operator.worker_client import WorkerRefused, Workers


class S3Provider:
    """Asks workers over HTTP; each call answers at once, and the worker goes on by itself."""

    takes_checkpoint = True

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def start(self, job: Job) -> str:
        """Have the worker begin its upload; one that is on its way or done under that name is adopted."""
        status = self._begin(job)
        return status.handle or job.snapshot

    def look(self, job: Job) -> Copy:
        """How the upload stands; a worker that has started since is asked to go on with it."""
        status = self._begin(job)
        if status.phase is UploadPhase.FAILED:
            raise ProviderError("UploadFailed", status.error or "the upload failed", final=False)
        entry = stamped(job.entry, status.checkpoint) if status.checkpoint else job.entry
        entry = entry.model_copy(
            update={"handle": status.handle or job.entry.handle, "uploaded_bytes": status.new_bytes}
        )
        usable = status.phase is UploadPhase.COMPLETED
        return Copy(usable=usable, bytes=status.total_bytes, entry=entry)

    def remove(self, job: Job) -> None:
        """Have the worker delete the copy, and what no other copy needs."""
        self._post(job, "/snapshots/delete", {"names": [job.snapshot]})

    def is_there(self, job: Job) -> bool:  # noqa: ARG002 # only the worker that restores can tell
        """Not known before the worker of the new volume tries."""
        return True

    def source(self, job: Job, claim_name: str) -> Source:  # noqa: ARG002 # any empty volume will do
        """An empty volume, which its worker fills (see children/pod_template.py)."""
        return Source()

    def _begin(self, job: Job) -> UploadStatus:
        answer = self._post(job, "/snapshots", {"name": job.snapshot})
        try:
            return UploadStatus.model_validate(answer)
        except ValidationError as error:
            message = f"the worker's answer can't be read: {error}"
            raise ProviderError("WorkerNotUnderstood", message, final=True) from error

    def _post(self, job: Job, path: str, body: dict[str, object]) -> object:
        try:
            return self._workers.post(job.pod, path, body, job.admin_token)
        except WorkerRefused as error:
            raise ProviderError(error.reason, str(error), final=error.final) from error


def failed_restore(snapshot: str, worker: WorkerStatus | None) -> str | None:
    """Why a worker could not fill its volume from a snapshot; None if it has not said so."""
    download = worker.download if worker else None
    if download is None or download.name != snapshot:
        return None
    failed = download.phase is DownloadPhase.FAILED
    return (download.error or "the download failed") if failed else None
