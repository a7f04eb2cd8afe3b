"""Asking a worker for snapshots, as the operator does."""

from http import HTTPStatus
from pathlib import Path

import httpx

from dedupe_crds.status.worker import DownloadStatus, UploadPhase, UploadStatus
from tests.support.processes.processes import WorkerProcess

TOKEN = "a token for this test"  # noqa: S105 # it opens nothing else


def admin_arguments(directory: Path) -> tuple[str, Path]:
    """What starts a worker that takes TOKEN."""
    file = directory / "token"
    file.write_text(TOKEN)
    return ("--admin-token-file", file)


def post(worker: WorkerProcess, path: str, **body: object) -> httpx.Response:
    """Ask a worker for something. Raises httpx.TransportError if it dies of it."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return httpx.post(f"http://{worker.endpoint()}{path}", json=body, headers=headers, timeout=30)


def begin_snapshot(worker: WorkerProcess, name: str) -> None:
    """Have a ready worker begin a snapshot."""
    worker.wait_until_ready()
    answer = post(worker, "/snapshots", name=name)
    assert answer.status_code == HTTPStatus.ACCEPTED, answer.text


def snapshot(worker: WorkerProcess, name: str) -> UploadStatus:
    """Make a snapshot; returns how it ended."""
    begin_snapshot(worker, name)

    def ended() -> UploadStatus | None:
        upload = worker.status().upload
        return upload if upload and upload.phase is not UploadPhase.RUNNING else None

    status = worker.wait_until(ended, f"the upload of {name} has ended")
    assert status is not None
    return status


def download_of(worker: WorkerProcess) -> DownloadStatus:
    """What a worker says of its restore."""
    download = worker.status().download
    assert download is not None
    return download
