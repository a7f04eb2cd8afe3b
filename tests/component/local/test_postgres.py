"""The embedded PostgreSQL, as the demo starts it."""

import os
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from dedupe_local.errors import PostgresFailed, Refused
from dedupe_local.servers import postgres
from dedupe_local.servers.postgres import EmbeddedPostgres
from tests.support.processes.brokers import START_SECONDS


@pytest.fixture
def directory() -> Iterator[Path]:
    """Create a directory for any user, as root's server runs as user 65534."""
    with tempfile.TemporaryDirectory(prefix="dedupe-postgres-") as path:
        yield Path(path)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    with (
        tempfile.TemporaryDirectory(prefix="dedupe-postgres-") as path,
        EmbeddedPostgres(Path(path), start_seconds=START_SECONDS) as running,
    ):
        yield running


class Taken:
    """Ports in use that look free, as can happen between check and bind."""

    def __init__(self, stack: ExitStack, count: int) -> None:
        self._servers = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        self.asked: list[int] = []

    def free_port(self, host: str) -> int:
        if self._servers:
            port = int(self._servers.pop(0).getsockname()[1])
        else:
            with socket.create_server((host, 0)) as free:
                port = int(free.getsockname()[1])
        self.asked.append(port)
        return port


def test_what_was_committed_is_there_after_it_went_without_a_word(directory: Path) -> None:
    server = EmbeddedPostgres(directory)
    urls = set()
    for expected in (1, 2):
        with server, psycopg.connect(server.url) as connection:
            urls.add(server.url)
            connection.execute("CREATE TABLE IF NOT EXISTS t (n int)")
            connection.execute("INSERT INTO t VALUES (1)")
            assert connection.execute("SELECT count(*) FROM t").fetchone() == (expected,)
    assert len(urls) == 1
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(server.url, connect_timeout=5)


@pytest.mark.parametrize("name", ["Köln 注文, 1:2 \\ it's %41 #1?a=b&c"])
def test_it_starts_in_a_directory_with_an_odd_name(directory: Path, name: str) -> None:
    directory.chmod(0o755)
    odd = directory / name
    odd.mkdir()

    with EmbeddedPostgres(odd, start_seconds=START_SECONDS) as server:
        psycopg.connect(server.url).close()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ('a"b', "a quotation mark"),
        ("a$HOME", "a shell expand"),
        ("a`touch made`", "a shell expand"),
        ("a\nb", "the end of a line"),
        ("a\udcff", "not UTF-8"),
    ],
)
def test_a_directory_that_initdb_cannot_have_is_refused_by_name(
    directory: Path, name: str, problem: str
) -> None:
    odd = directory / name
    odd.mkdir()

    with pytest.raises(Refused, match=problem):
        EmbeddedPostgres(odd).start()

    assert list(odd.iterdir()) == []


@pytest.mark.parametrize("step", ["copytree", "run", "_write_secret"])
def test_what_a_killed_first_start_has_left_is_not_taken_for_whole(
    directory: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    class Killed(BaseException):
        """The end of the process, after a step."""

    if step == "copytree" and os.geteuid() != 0:
        pytest.skip("the programs are copied for root's server only")
    holder = {"copytree": shutil, "run": subprocess}.get(step, postgres)
    done = getattr(holder, step)

    def die(*given: object, **named: object) -> None:
        done(*given, **named)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(holder, step, die)
        with pytest.raises(Killed):
            EmbeddedPostgres(directory).start()

    with (
        EmbeddedPostgres(directory, start_seconds=START_SECONDS) as server,
        psycopg.connect(server.url) as connection,
    ):
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_port_that_somebody_else_got_is_left_to_them(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        taken = Taken(stack, 2)
        monkeypatch.setattr(postgres, "_free_port", taken.free_port)
        with EmbeddedPostgres(directory, start_seconds=START_SECONDS) as server:
            assert server.port == taken.asked[2]
            psycopg.connect(server.url).close()


def test_a_server_that_does_not_start_says_why_and_what_to_do(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        taken = Taken(stack, 3)
        monkeypatch.setattr(postgres, "_free_port", taken.free_port)
        server = EmbeddedPostgres(directory)
        with pytest.raises(PostgresFailed) as failed:
            server.start()

    assert len(taken.asked) == 3
    assert "Address already in use" in str(failed.value)
    assert "use another PostgreSQL" in str(failed.value)
    assert server.password not in str(failed.value)


@pytest.mark.parametrize("password", [None, "wrong"])
def test_nobody_logs_in_without_the_password(
    server: EmbeddedPostgres, password: str | None, tmp_path: Path
) -> None:
    host, port = server.host, server.port
    nothing = str(tmp_path / "no-passwords")
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(
            host=host,
            port=port,
            user="test",
            dbname="postgres",
            password=password,
            passfile=nothing,
        )


def test_the_password_is_in_one_file_that_others_can_not_read(server: EmbeddedPostgres) -> None:
    directory = server.log_path.parent
    files = [path for path in directory.iterdir() if path.is_file()]
    holding = [path for path in files if server.password in path.read_text(errors="replace")]

    assert [path.name for path in holding] == ["pgpass"]
    assert stat.S_IMODE(holding[0].stat().st_mode) == 0o600
    assert server.password not in server.url
