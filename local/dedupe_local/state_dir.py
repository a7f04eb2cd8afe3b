"""The state directory of a local run.

lock                      held by the run
manifest.yaml             the manifest the workers are started with
admin-token               what their admin endpoints ask for
broker/                   the embedded broker, if there is one
partition-N/              a worker's own state directory, and beside its files:
    worker.log            what it logged
    endpoint              HOST:PORT of its HTTP server
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
    """A state directory, this process's own from `with` to its end.

    Raises:
        StateInUse: on entry, another process has it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._lock: IO[str] | None = None

    @classmethod
    def default_path(cls, stream: DedupeStream) -> Path:
        """Where a stream's state is if the user names no place (XDG)."""
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        return Path(base) / "dedupestream" / stream.metadata.namespace / stream.metadata.name

    @property
    def broker(self) -> Path:
        """The embedded broker's directory."""
        return self.root / "broker"

    @property
    def manifest(self) -> Path:
        """The manifest the workers are started with."""
        return self.root / "manifest.yaml"

    @property
    def admin_token(self) -> Path:
        """A file only this user can read."""
        return self.root / "admin-token"

    def partition(self, number: int) -> Path:
        """A worker's directory."""
        return self.root / f"partition-{number}"

    def write_manifest(self, stream: DedupeStream) -> None:
        """Write the manifest for the workers."""
        document = stream.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.manifest.write_text(yaml.safe_dump(document, sort_keys=False))

    def ensure_admin_token(self) -> None:
        """Make a random token, unless there is one from an earlier run."""
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
                "or give this one a directory of its own with --state-dir."
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
