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
from pathlib import Path
from typing import IO, Self

import yaml

from dedupe_crds.spec.stream import DedupeStream
from dedupe_local.errors import StateInUse


class StateDir:
    """A state directory, locked for this process within a `with` block.

    Raises:
        StateInUse: on entry, another process has the lock.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._lock: IO[str] | None = None

    @classmethod
    def default_path(cls, stream: DedupeStream) -> Path:
        """Return a stream's default state directory (XDG)."""
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
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
        self.manifest.write_text(yaml.safe_dump(document, sort_keys=False))

    def ensure_admin_token(self) -> None:
        """Write a random token, unless there is a token from an earlier run."""
        if not self.admin_token.exists():
            descriptor = os.open(self.admin_token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(32))

    def __enter__(self) -> Self:
        self.root.mkdir(parents=True, exist_ok=True)
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
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
