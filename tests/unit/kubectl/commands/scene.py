"""A stream with snapshots on a small API server, and what becomes of a request about it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from dedupe_kubectl.cli import main
from tests.unit.kubectl.api_server import STREAMS, Answer, ApiServer, api_server
from tests.unit.kubectl.clock import FakeClock
from tests.unit.kubectl.documents import partition, stream

ORDERS = f"{STREAMS}/orders"
WITH_SNAPSHOTS = {"snapshots": {"provider": "CSI"}}


@contextmanager
def orders(config: Path) -> Iterator[ApiServer]:
    """An API server with the stream `orders` of two partitions, and a kubeconfig for it."""
    with api_server(config) as api:
        api.holds(stream(spec=WITH_SNAPSHOTS, partitions=[partition(0), partition(1)]))
        yield api


def run(api: ApiServer, *arguments: str) -> Result:
    done = CliRunner(env={"NO_COLOR": "1"}).invoke(
        main, [*arguments, "--kubeconfig", str(api.kubeconfig)], obj=FakeClock()
    )
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def requested(api: ApiServer, annotation: str) -> dict[str, Any]:
    """The one request that was written into the stream."""
    ((path, _, body),) = api.patches
    assert path == ORDERS
    request: dict[str, Any] = json.loads(body["metadata"]["annotations"][annotation])
    return request


def follow(api: ApiServer, *partitions: dict[str, Any]) -> None:
    """Let partition 0 go through these states once the stream was patched; `?` in them stands for the request."""

    def states(patch: dict[str, Any]) -> list[Answer]:
        (text,) = patch["metadata"]["annotations"].values()
        request = json.dumps(json.loads(text)["request"])
        told = (json.loads(json.dumps(one).replace('"?"', request)) for one in partitions)
        return [(200, stream(spec=WITH_SNAPSHOTS, partitions=[one, partition(1)])) for one in told]

    api.after_patch[ORDERS] = states
