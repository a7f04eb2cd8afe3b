"""The state directory of a local run.

lock                      locked while a run uses the directory; holds its process id
manifest.yaml             the manifest that the workers start with
admin-token               the token for the workers' admin endpoints
broker/                   the embedded broker, if there is one
partition-N/              a worker's state directory, and in addition:
    worker.log            the worker's log
    endpoint              HOST:PORT of its HTTP server
router-N/                 router.log and endpoint of a router, if the stream has any; it has no other state
"""

import fcntl
import os
import secrets
import shlex
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, Self

import yaml

from dedupe_crds.deadline import Deadline
from dedupe_crds.spec.stream import DedupeStream
from dedupe_local.errors import Refused, StateInUse
from dedupe_local.servers.java_paths import not_utf_8

_PATIENCE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05
_OF_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class StateDir:
    """A state directory, locked for this process within a `with` block.

    On entry it waits for the workers and the broker of an earlier run that was killed: they live on for a moment, and a
    worker that meets one of them ends. `say` gets one line with the path of the lock, and one if other users can read
    an existing directory.

    Raises:
        Refused: on entry, the path has bytes that are not UTF-8, which RocksDB's library cannot open.
        StateInUse: on entry, another process has the lock, or one of these after `patience_seconds`.
    """

    def __init__(
        self,
        root: Path,
        *,
        say: Callable[[str], None] = lambda _: None,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        self.root = root.absolute()
        self._say = say
        self._patience_seconds = patience_seconds
        self._lock: IO[str] | None = None

    @classmethod
    def default_path(cls, stream: DedupeStream) -> Path:
        """Return a stream's default state directory (XDG). Raises Refused without a home."""
        base = os.environ.get("XDG_STATE_HOME") or _home() / ".local" / "state"
        return Path(base) / "dedupestream" / stream.metadata.namespace / stream.metadata.name

    @property
    def broker(self) -> Path:
        """Return the embedded broker's directory."""
        return self.root / "broker"

    @property
    def manifest(self) -> Path:
        """Return the path of the manifest that the workers start with."""
        return self.root / "manifest.yaml"

    @property
    def admin_token(self) -> Path:
        """Return the path of the token file, which only this user can read."""
        return self.root / "admin-token"

    def partition(self, number: int) -> Path:
        """Return a worker's state directory."""
        return self.root / f"partition-{number}"

    def router(self, number: int) -> Path:
        """Return the directory of a router's log."""
        return self.root / f"router-{number}"

    def partitions(self) -> int:
        """Return the number of partitions up to the last one that had a worker here.

        A bootstrap may have made directories of some partitions only.
        """
        logs = self.root.glob("partition-*/worker.log")
        numbers = (path.parent.name.removeprefix("partition-") for path in logs)
        return max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)

    def write_manifest(self, stream: DedupeStream) -> None:
        """Write the manifest for the workers."""
        document = stream.model_dump(mode="json", by_alias=True, exclude_none=True)
        _write_atomically(self.manifest, yaml.safe_dump(document, sort_keys=False))

    def ensure_admin_token(self) -> None:
        """Write a random token, unless there is a token from an earlier run."""
        if not self.admin_token.exists() or not self.admin_token.read_text().strip():
            _write_atomically(self.admin_token, secrets.token_urlsafe(32))

    def __enter__(self) -> Self:
        if not_utf_8(str(self.root)):
            raise Refused(
                f"A store cannot be in the directory {str(self.root)!r}: it has bytes that are not UTF-8; choose "
                "another with --state-dir."
            )
        # It has the topics of an embedded broker, and the ids: not for other users, whatever the umask is.
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_mode()
        lock = (self.root / "lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            lock.close()
            raise StateInUse(
                f"State directory {self.root} is in use by process {holder}: stop that run first, "
                "or use another directory with --state-dir."
            ) from None
        except OSError as error:
            lock.close()
            raise Refused(
                f"State directory {self.root} can't be locked ({error.strerror}): use one on a file system "
                "that has locks, with --state-dir."
            ) from error
        try:
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            self._wait_for_earlier_run()
        except BaseException:
            lock.close()
            raise
        self._lock = lock
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _check_mode(self) -> None:
        """Say that others can read an existing directory, whose mode may be meant."""
        mode = stat.S_IMODE(self.root.stat().st_mode)
        if mode & _OF_OTHERS:
            self._say(
                f"State directory {self.root} has mode {mode:o}, so other users can read its topics and ids; if they "
                f"should not: chmod 700 {shlex.quote(str(self.root))}"
            )

    def _wait_for_earlier_run(self) -> None:
        if not (path := self._locked_by_child()):
            return
        self._say(f"{path} is in use, as by a process of a run that was killed: waits for its end")
        deadline = Deadline(self._patience_seconds)
        while path := self._locked_by_child():
            if not deadline.pause(_POLL_SECONDS):
                raise StateInUse(
                    f"{path} is in use after {self._patience_seconds:.0f} s, by a process that this run did not "
                    f"start: find it with `fuser {path}` and stop it, or use another directory with --state-dir."
                )

    def _locked_by_child(self) -> Path | None:
        """Return a lock that a worker has, or the embedded broker."""
        for path in sorted(self.root.glob("partition-*/lock")):
            if _is_locked(path, fcntl.flock):
                return path
        java = self.broker / "data" / ".lock"
        return java if _is_locked(java, fcntl.lockf) else None


def _is_locked(path: Path, take: Callable[[IO[bytes], int], None]) -> bool:
    """Return whether another process has a lock; `take` is the kind of lock."""
    with suppress(OSError), path.open("r+b") as file:
        try:
            take(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _write_atomically(path: Path, text: str) -> None:
    """Write a file for this user only, so that a full disk leaves the one before."""
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)


def _home() -> Path:
    with suppress(RuntimeError):
        if os.environ.get("HOME") != "":  # an empty one would be the root directory
            return Path.home()
    raise Refused(
        "This user has no home directory: set HOME, or name a directory with --state-dir."
    )
