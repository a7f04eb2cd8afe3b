"""The state directory of one worker: its paths, its identity, its lock.

identity.json   see `Identity`
lock            locked while a worker uses the directory
db/             the store
db.restoring/   a store that is being downloaded, see snapshots/download.py
checkpoints/    copies of the store, see store/checkpoint.py
db.copied/      a checkpoint that will replace the store, see store/checkpoint.py
comparison/     files of a full reconcile, see recovery/full_reconcile.py
losses.json     output that was lost, see recovery/lost_output.py
reconcile.json  the last requested reconcile, see admin/reconcile_requests.py
shortened       exists from the decision to rebuild the store with a shorter window until the store says so itself;
                the input offset up to which the store before had read, and that topic's id, where they are known, and
                the reason of the rebuild

Invariant: a directory of another stream or partition is refused, and its store never opened.
"""

import fcntl
import os
import re
import shlex
import shutil
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import structlog
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from dedupe_crds.spec.topics import IdSource
from dedupe_kafka.errors import InvalidConfig
from dedupe_worker.errors import DiskFull, IdentityRefused, StateLocked

log = structlog.get_logger()

_FORMAT: Final = 1
_LOCAL: Final = {"nolock", "local_lock=all", "local_lock=flock"}
"""Options of NFS with which a lock is known on this machine only."""


class Identity(BaseModel):
    """identity.json: the stream, the partition and the topics of the ids.

    `stream` is "namespace/name" rather than the UID of the Kubernetes object: a stream deleted with its volumes
    retained and applied again is the same stream. The topics' UUIDs tell which records the ids are of.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )

    format: int = _FORMAT
    stream: str
    partition: int
    input_topic_id: str
    output_topic_id: str
    id_source: str = Field(default="", alias="id")
    """The source of the ids, see `id_source_text`; empty if it was not recorded."""


def id_source_text(source: IdSource) -> str:
    """Return a stream's `spec.id` as it is recorded.

    >>> id_source_text(IdSource.model_validate({"from": "Header", "name": "order"}))
    '{"from":"Header","name":"order"}'
    """
    return source.model_dump_json(by_alias=True, exclude_defaults=True)


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """The paths below one worker's state directory."""

    root: Path

    @property
    def database(self) -> Path:
        """Return the store's directory."""
        return self.root / "db"

    @property
    def restoring(self) -> Path:
        """Return the directory of a download."""
        return self.root / "db.restoring"

    @property
    def checkpoints(self) -> Path:
        """Return the directory of checkpoints."""
        return self.root / "checkpoints"

    @property
    def copied(self) -> Path:
        """Return the directory of a checkpoint's copy that will replace the store."""
        return self.root / "db.copied"

    @property
    def comparison(self) -> Path:
        """Return the directory of a full reconcile's files."""
        return self.root / "comparison"

    @property
    def reconcile_answer(self) -> Path:
        """Return the file with the result of the last requested reconcile."""
        return self.root / "reconcile.json"

    @property
    def losses(self) -> Path:
        """Return the file with the losses of output that no person has accepted."""
        return self.root / "losses.json"

    @property
    def _identity(self) -> Path:
        return self.root / "identity.json"

    def lock(self) -> IO[str]:
        """Take the directory for this process, until the file returned is closed.

        It is made for this user only. One that all users can read keeps its mode, and the log tells.

        Raises StateLocked if another process has it, InvalidConfig if it can't be written to or locked, or no store can
        be there.
        """
        if any("\ud800" <= each <= "\udfff" for each in str(self.root)):
            raise InvalidConfig(
                f"state directory {str(self.root)!r} has bytes that are not UTF-8; choose another with --state-dir"
            )
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_mode()
            file = (self.root / "lock").open("w")
        except OSError as error:
            raise InvalidConfig(f"state directory {self.root}: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            if isinstance(error, BlockingIOError):
                raise StateLocked(
                    f"state directory {self.root} is in use by another worker; stop that worker first"
                ) from error
            raise InvalidConfig(
                f"state directory {self.root} can't be locked ({error.strerror}), so two workers could write one "
                "store: choose a volume whose file system has locks, as block storage has"
            ) from error
        return file

    def foreign_locks(self, mounts: Path = Path("/proc/self/mounts")) -> str | None:
        """Return the mount of the directory if its locks reach no other machine.

        None if nothing shows that. Network file systems can be mounted so (proc(5), nfs(5): `nolock`, `local_lock`).
        """
        try:
            lines = [line.split() for line in mounts.read_text().splitlines()]
        except OSError:  # not on Linux
            return None
        root = self.root.resolve()
        found = [
            (Path(_unescaped(line[1])), line[2], line[3].split(","))
            for line in lines
            if root.is_relative_to(_unescaped(line[1]))
        ]
        where, kind, options = max(
            found, key=lambda each: len(each[0].parts), default=(root, "", [])
        )
        if kind.startswith("nfs") and not _LOCAL.isdisjoint(options):
            return f"{where} ({kind}: {', '.join(sorted(_LOCAL & set(options)))})"
        return None

    def _check_mode(self) -> None:
        """Log that all users can read the ids.

        A group may: on Kubernetes a volume is of one.
        """
        if stat.S_IMODE(self.root.stat().st_mode) & stat.S_IRWXO:
            log.warning(
                "all users of this machine can read the state directory",
                state_dir=str(self.root),
                remedy=f"chmod o= {shlex.quote(str(self.root))}",
            )

    def recorded(self, stream: str, partition: int) -> Identity | None:
        """Return the recorded identity, None for a new directory.

        Raises IdentityRefused if it is another's.
        """
        try:
            text = self._identity.read_text()
        except FileNotFoundError:
            return None
        try:
            identity = Identity.model_validate_json(text)
        except ValidationError as error:
            raise IdentityRefused(
                f"{self._identity} can't be read as a worker's identity: {error}"
            ) from error
        if identity.format != _FORMAT:
            raise IdentityRefused(
                f"{self._identity} has format {identity.format}; this version reads format {_FORMAT}"
            )
        if (identity.stream, identity.partition) != (stream, partition):
            raise IdentityRefused(
                f"state directory {self.root} belongs to {identity.stream} partition {identity.partition}, "
                f"not to {stream} partition {partition}; give this worker its own directory or an empty one"
            )
        return identity

    def check_id_source(self, recorded: Identity | None, identity: Identity) -> None:
        """Refuse another id source for the same output topic.

        So all ids of a store are of one kind. With another output topic the store is rebuilt, so its ids may be of
        another source. Raises InvalidConfig.
        """
        if recorded is None or recorded.output_topic_id != identity.output_topic_id:
            return
        if recorded.id_source and recorded.id_source != identity.id_source:
            raise InvalidConfig(
                f"spec.id is {identity.id_source}, but the ids in {self.root} and in the output topic are of "
                f"{recorded.id_source}: restore that value; for other ids create another stream with its own output "
                "topic, and import past ids with `dedupe bootstrap` (docs/bootstrap.md)"
            )

    def record(self, identity: Identity) -> None:
        """Write the identity, all or nothing."""
        write_atomically(self._identity, identity.model_dump_json(by_alias=True, indent=2) + "\n")

    def discard_store(self) -> None:
        """Delete the store, so that it is rebuilt; a power loss does not bring it back."""
        if self.database.exists():
            shutil.rmtree(self.database, ignore_errors=True)
            sync_to_disk(self.root)

    def discard_restoring(self) -> None:
        """Delete what an aborted download left."""
        shutil.rmtree(self.restoring, ignore_errors=True)


def _unescaped(path: str) -> str:
    """Return the path that the mount table has with octal numbers for white space."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def write_atomically(path: Path, text: str) -> None:
    """Write a small file so that a crash leaves the old or the new one.

    Raises DiskFull or OSError.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("w") as file:
            file.write(text)
            file.flush()
            fsync(file.fileno(), temporary)
        temporary.replace(path)
        sync_to_disk(path.parent)
    except OSError as error:
        if error.errno in (28, 122):  # ENOSPC, EDQUOT
            raise DiskFull(
                f"writing {path}: {error.strerror}; free or add space on the volume"
            ) from error
        raise


def make_directory(path: Path) -> None:
    """Create a directory whose name outlasts a power cut. Raises OSError."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        sync_to_disk(path.parent)


def sync_to_disk(path: Path) -> None:
    """Have a file, or what a directory holds by name, outlast a power cut.

    Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fsync(descriptor, path)
    finally:
        os.close(descriptor)


def fsync(descriptor: int, path: Path) -> None:
    """Sync an open file or directory, and raise the audit event `dedupe_worker.fsync`.

    Python raises audit events for all other changes of files, but none for a sync. With this one a simulated power
    loss can undo what was not synced (tests/simulation/disk.py). Raises OSError.
    """
    os.fsync(descriptor)
    sys.audit("dedupe_worker.fsync", str(path))
