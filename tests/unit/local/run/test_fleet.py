"""A fleet with routers, whose processes are small scripts and whose cluster is not there."""

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dedupe_crds.deadline import Deadline
from dedupe_crds.manifest import parse_manifest
from dedupe_crds.spec.stream import DedupeStream
from dedupe_crds.status.exit_code import ExitCode
from dedupe_crds.status.router import RouterPhase, RouterStatus
from dedupe_crds.status.worker import WorkerStatus
from dedupe_growth.entries import Done, Switch
from dedupe_growth.epochs import Epochs, epochs_of
from dedupe_kafka.stream_topics import StreamTopics
from dedupe_local.errors import WorkerEnded
from dedupe_local.run import fleet as fleet_module
from dedupe_local.run import growth as growth_module
from dedupe_local.run.fleet import Fleet
from dedupe_local.run.router_process import RouterProcess
from dedupe_local.run.worker_process import WorkerProcess
from dedupe_local.state_dir import StateDir
from tests.support.patience import HANG_SECONDS, patience_clock
from tests.unit.crds.manifests import changed
from tests.unit.local.run import views
from tests.unit.local.run.test_router_rows import status as router_status

# It answers each request with its status, and on SIGTERM it writes its name to a file.
SERVES = """
    import http.server, signal, sys, threading
    name, body, endpoint, ended = sys.argv[1:]
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.encode())
        def log_message(self, *_): pass
    def end(*_):
        with open(ended, "a") as file:
            file.write(name + "\\n")
        sys.exit(0)
    signal.signal(signal.SIGTERM, end)
    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    with open(endpoint, "w") as file:
        file.write(f"127.0.0.1:{server.server_port}")
    server.serve_forever()
"""
REPARTITION = {"partitions": 2, "routers": {"replicas": 2}}


class Topics:
    """A cluster that has all topics."""

    def ensure_output(self, stream: DedupeStream, known: int = 0, *, seen: int = 0) -> StreamTopics:
        assert (stream.metadata.name, known, seen) == ("orders", 0, 0)
        return StreamTopics(partitions=2, served=2, problems=(), created=True)


class GrowthController:
    """The controller of a stream that has the partitions it asks for."""

    status = None
    epochs = epochs_of([Switch(epoch=0, partitions=2, inputs={"orders": 2}), Done(epoch=0)])

    def __init__(self, *_: object) -> None: ...

    def read(self) -> Epochs:
        return self.epochs

    def step(self, wanted: int, _unlearnt: object) -> bool:
        assert wanted == 2
        return False


class Scripts:
    """What the processes of a fleet do; `first` is what router 0 does, if that is different."""

    def __init__(self, directory: Path) -> None:
        self.ended = directory / "ended"
        self.router = router_status()
        self.worker = views.status()
        self.first: list[str | Path] | None = None

    def serving(
        self, name: str, status: RouterStatus | WorkerStatus, endpoint: Path
    ) -> list[str | Path]:
        body = status.model_dump_json(by_alias=True)
        code = textwrap.dedent(SERVES)
        return [sys.executable, "-c", code, name, body, endpoint, self.ended]


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripts:
    made = Scripts(tmp_path)

    class Worker(WorkerProcess):
        def command(self) -> list[str | Path]:
            return made.serving(f"worker-{self.partition}", made.worker, self.endpoint)

    class Router(RouterProcess):
        def command(self) -> list[str | Path]:
            if self.number == 0 and made.first:
                return made.first
            return made.serving(f"router-{self.number}", made.router, self.endpoint)

    monkeypatch.setattr(fleet_module, "WorkerProcess", Worker)
    monkeypatch.setattr(fleet_module, "RouterProcess", Router)
    monkeypatch.setattr(growth_module, "GrowthController", GrowthController)
    monkeypatch.setattr(Fleet, "_connect", lambda *_: Topics())
    return made


CreateFleet = Callable[[dict[str, Any]], Fleet]


@pytest.fixture
def create(scripts: Scripts, tmp_path: Path) -> Iterator[CreateFleet]:
    assert scripts
    started: list[Fleet] = []

    def make(changes: dict[str, Any]) -> Fleet:
        given = {"spec.repartition": REPARTITION, **changes}
        started.append(Fleet(parse_manifest(changed(given), "-"), state))
        return started[-1]

    with StateDir(tmp_path / "state") as state:
        yield make
        for fleet in started:
            fleet.stop()


def wait_for(fleet: Fleet, condition: Callable[[], object]) -> None:
    assert Deadline(60, clock=patience_clock, wait=fleet.wait).wait_for(
        condition, poll_seconds=0.05
    )


def test_routers_stop_before_workers(create: CreateFleet, scripts: Scripts) -> None:
    fleet = create({})
    fleet.start()
    fleet.wait_ready(HANG_SECONDS)
    assert [view.router for view in fleet.router_views()] == [0, 1]
    assert fleet.view().routers == fleet.router_views()

    assert fleet.stop()

    first, last = scripts.ended.read_text().split()[:2], scripts.ended.read_text().split()[2:]
    assert sorted(first) == ["router-0", "router-1"]
    assert sorted(last) == ["worker-0", "worker-1"]
    assert [view.pid for view in fleet.router_views()] == [None, None]


def test_a_fleet_is_ready_once_its_routers_are(create: CreateFleet, scripts: Scripts) -> None:
    scripts.router = router_status(phase=RouterPhase.STARTING)
    fleet = create({})
    fleet.start()
    wait_for(fleet, lambda: all(each is not None and each.ready for each in fleet.statuses()))
    with pytest.raises(TimeoutError, match="Not every process"):
        fleet.wait_ready(0.1)


def test_a_router_that_ends_for_good_ends_the_fleet(create: CreateFleet, scripts: Scripts) -> None:
    says = "print('spec.id is wrong'); raise SystemExit(64)"
    scripts.first = [sys.executable, "-c", says]
    fleet = create({})
    fleet.start()
    named = rf"router 0 ended with exit code {ExitCode.CONFIG} \(CONFIG\): spec\.id is wrong.*log"
    with pytest.raises(WorkerEnded, match=named):
        fleet.wait(HANG_SECONDS)
    assert fleet.statuses() == [None, None]


def test_a_router_that_fails_is_started_again(create: CreateFleet, scripts: Scripts) -> None:
    scripts.first = [sys.executable, "-c", "raise SystemExit(1)"]
    fleet = create({})
    fleet.start()
    wait_for(fleet, lambda: fleet.router_views()[0].last_exit)
    scripts.first = None
    fleet.wait_ready(HANG_SECONDS)
    [view, other] = fleet.router_views()
    assert (view.restarts, view.last_exit, other.restarts) == (1, None, 0)


def test_a_fleet_that_kills_a_router_was_not_stopped_well(
    create: CreateFleet, scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "STOP_SECONDS", 4.0)
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(99)"
    scripts.first = [sys.executable, "-c", deaf]
    fleet = create({})
    fleet.start()
    wait_for(fleet, lambda: all(each is not None for each in fleet.statuses()))
    wait_for(fleet, lambda: fleet.router_views()[1].status)

    assert not fleet.stop()

    assert sorted(scripts.ended.read_text().split()) == ["router-1", "worker-0", "worker-1"]


def test_warnings_of_routers_are_noted_once(create: CreateFleet, scripts: Scripts) -> None:
    missing = {"InputTopicMissing": "a does not exist"}
    scripts.router = router_status().model_copy(update={"warnings": missing})
    fleet = create({"spec.id": {"from": "Content"}})
    fleet.start()
    fleet.wait_ready(HANG_SECONDS)
    assert fleet.notes() == ["InputTopicMissing: a does not exist"]


@pytest.mark.parametrize(("source", "notes"), [("Key", 0), ("Content", 1)])
def test_that_equal_ids_need_equal_keys_is_noted(
    create: CreateFleet, source: str, notes: int
) -> None:
    fleet = create({"spec.id": {"from": source}, "spec.repartition": {**REPARTITION, "by": "Key"}})
    found = fleet.notes()
    assert len(found) == notes
    assert all(note.startswith("ByKey: ") for note in found)
