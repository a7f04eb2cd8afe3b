"""SHA-256 of files that never change, kept from one snapshot to the next.

`upload` uses it.

    digests.json    {"digest": SHA-256 of `files` as JSON, "files": {"<name> <inode> <size> <mtime>": "<SHA-256>"}}

If the file is lost, old or damaged, it only costs the time to read the store's files again.
"""

import hashlib
import json
from pathlib import Path

from dedupe_worker.store.state_dir import write_atomically


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class DigestCache:
    """Digests by file; `save` keeps those that were used since it was loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = _load(path)
        self._now: dict[str, str] = {}

    def remembered(self, path: Path) -> str | None:
        """Return the digest that was computed for this file before; None if it is unknown."""
        key = _key(path)
        digest = self._before.get(key)
        if digest is not None:
            self._now[key] = digest
        return digest

    def computed(self, path: Path) -> str:
        """Compute the file's digest."""
        digest = self._now[_key(path)] = sha256_of(path)
        return digest

    def save(self) -> None:
        """Write the cache. Raises DiskFull or OSError."""
        content = {"digest": _seal(self._now), "files": self._now}
        write_atomically(self._path, json.dumps(content) + "\n")


def _key(path: Path) -> str:
    # A hard link in a checkpoint is the same inode as the store's own file.
    stat = path.stat()
    return f"{path.name} {stat.st_ino} {stat.st_size} {stat.st_mtime_ns}"


def _seal(files: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def _load(path: Path) -> dict[str, str]:
    try:
        content = json.loads(path.read_bytes())
        files: dict[str, str] = content["files"]
        is_whole = content["digest"] == _seal(files)
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return files if is_whole else {}
