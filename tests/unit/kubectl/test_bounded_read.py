"""Answers that are longer than any of ours, or that come a byte at a time."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
import urllib3
import yaml
from click.testing import CliRunner, Result

from dedupe_crds.deadline import Deadline
from dedupe_kubectl.bounded_read import Unreadable, read_whole
from dedupe_kubectl.cli import main
from tests.support.patience import HANG_SECONDS, patience
from tests.unit.kubectl.api_server import STREAMS, ApiServer, api_server
from tests.unit.kubectl.clock import FakeClock
from tests.unit.kubectl.documents import partition, pod, stream

BODY = "/body"


@pytest.fixture(name="api")
def _api(tmp_path: Path) -> Iterator[ApiServer]:
    with api_server(tmp_path / "config") as api:
        yield api


def endless() -> Iterator[bytes]:
    while True:
        yield bytes(1 << 20)


def read(api: ApiServer, *, longest_bytes: int, deadline: Deadline) -> bytes:
    config = yaml.safe_load(api.kubeconfig.read_text())
    url = config["clusters"][0]["cluster"]["server"] + BODY
    with urllib3.PoolManager(retries=False) as pool:
        answer = pool.request("GET", url, preload_content=False, timeout=HANG_SECONDS)
        return read_whole(answer, longest_bytes, deadline)


def run(api: ApiServer, *arguments: str) -> Result:
    done = CliRunner(env={"NO_COLOR": "1"}).invoke(
        main, [*arguments, "--kubeconfig", str(api.kubeconfig)], obj=FakeClock()
    )
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_an_answer_of_just_the_bound_is_read(api: ApiServer) -> None:
    api.answers[BODY] = (200, "x" * 200_000)
    deadline = patience(10)
    assert read(api, longest_bytes=200_000, deadline=deadline) == b"x" * 200_000
    with pytest.raises(Unreadable, match="longer than 195Ki bytes"):
        read(api, longest_bytes=199_999, deadline=deadline)


def test_an_answer_that_comes_byte_by_byte_ends_with_the_deadline(api: ApiServer) -> None:
    over = Event()

    def drip() -> Iterator[bytes]:
        while not over.wait(0.01):
            yield b"x"

    api.answers[BODY] = (200, drip)
    try:
        with pytest.raises(Unreadable, match="not complete after"):
            read(api, longest_bytes=1 << 20, deadline=Deadline(0.3))
    finally:
        over.set()


def test_a_worker_whose_answer_has_no_end_is_as_silent(api: ApiServer) -> None:
    api.holds(stream(partitions=[partition(lagMessages=99)]), pods=(pod(),))
    api.worker_says("orders-0-0", 200, endless)
    done = run(api, "status", "orders")
    assert done.exit_code == 0
    assert " 99 " in done.stdout


def test_a_list_that_has_no_end_is_an_error_in_one_line(api: ApiServer) -> None:
    api.answers[STREAMS] = (200, endless)
    done = run(api, "status")
    assert done.exit_code == 3
    assert "its answer is longer than 64Mi bytes" in done.stderr
    assert len(done.stderr.splitlines()) == 1
