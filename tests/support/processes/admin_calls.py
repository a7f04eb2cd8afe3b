"""Calls of a worker's admin endpoints, with the token that they need."""

from pathlib import Path

import httpx

from tests.support.patience import HANG_SECONDS
from tests.support.processes.loopback import HTTP
from tests.support.processes.processes import WorkerProcess

TOKEN = "a token for this test"  # noqa: S105 # it gives access to nothing else


def admin_arguments(directory: Path) -> tuple[str, Path]:
    """Write TOKEN to a file, and return the arguments of a worker that accepts it."""
    path = directory / "token"
    path.write_text(TOKEN)
    return ("--admin-token-file", path)


def post(worker: WorkerProcess, path: str, **fields: object) -> httpx.Response:
    """POST `fields` as JSON, or nothing if there are none.

    Raises httpx.TransportError if the worker dies meanwhile.
    """
    headers = {"Authorization": f"Bearer {TOKEN}"}
    url = f"http://{worker.endpoint()}{path}"
    return HTTP.post(url, json=fields or None, headers=headers, timeout=HANG_SECONDS)
