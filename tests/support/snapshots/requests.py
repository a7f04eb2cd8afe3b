"""Request snapshots from a worker, as the operator does."""

from http import HTTPStatus

from dedupe_crds.status.worker import DownloadStatus, UploadPhase, UploadStatus
from tests.support.processes.admin_calls import post
from tests.support.processes.processes import WorkerProcess


def begin_snapshot(worker: WorkerProcess, name: str) -> None:
    """Start a snapshot on a worker once it is ready."""
    worker.wait_until_ready()
    answer = post(worker, "/snapshots", name=name)
    assert answer.status_code == HTTPStatus.ACCEPTED, answer.text


def snapshot(worker: WorkerProcess, name: str) -> UploadStatus:
    """Make a snapshot; return the status of its upload."""
    begin_snapshot(worker, name)

    def ended() -> UploadStatus | None:
        upload = worker.status().upload
        return upload if upload and upload.phase is not UploadPhase.RUNNING else None

    status = worker.wait_until(ended, f"the upload of {name} has ended")
    assert status is not None
    return status


def download_of(worker: WorkerProcess) -> DownloadStatus:
    """Return the status of a worker's restore."""
    download = worker.status().download
    assert download is not None
    return download
