"""docs/operations.md has every path of a worker's HTTP server, and the titles of its own refusals."""

from pathlib import Path

import pytest
from falcon import inspect

from dedupe_crds.manifest import parse_manifest
from dedupe_worker.admin import http_api
from dedupe_worker.admin.commands import CommandQueue
from dedupe_worker.admin.metrics import make_registry
from dedupe_worker.admin.reconcile_requests import ReconcileRequests
from dedupe_worker.status import WorkerState
from tests.unit.crds.manifests import MINIMAL

PAGE = (Path(__file__).parents[3] / "docs/operations.md").read_text()
SECTION = PAGE.split("## The worker's HTTP calls")[1]


@pytest.fixture(scope="module")
def calls() -> list[str]:
    """Method and path of each, without those that falcon adds."""
    worker_state = WorkerState(parse_manifest(MINIMAL, "test"), 0)
    requests = ReconcileRequests(worker_state, Path("never-written"))
    app = http_api.make_app(
        worker_state, CommandQueue(), make_registry(worker_state), None, requests=requests
    )
    return [
        f"{method.method} {route.path}"
        for route in inspect.inspect_routes(app)
        for method in route.methods
        if not method.internal
    ]


def test_every_call_is_in_the_page_and_no_other(calls: list[str]) -> None:
    assert len(calls) > 10
    table = [line for line in SECTION.splitlines() if line.startswith(("| `GET", "| `POST"))]
    assert sorted(line.split("`")[1] for line in table) == sorted(calls)


@pytest.mark.parametrize(
    "said", ["Admin calls are off", "Admin token needed", "X-Admin-Token", "NothingToCheckpoint"]
)
def test_what_the_server_says_is_in_the_page(said: str) -> None:
    assert f'"{said}"' in Path(http_api.__file__).read_text()
    assert f"`{said}" in SECTION
