"""Volumes of workers, and what a crash leaves of them.

A volume is a directory on tmpfs. What RocksDB has not flushed is in the memory of its process: a copy of the directory
at the moment of a kill does not have it. What the worker itself writes is in the page cache: it survives a kill, and a
power loss only if it was synced.

`Volume` hears of each change that Python makes below its directory as an audit event (and of each sync from
`state_dir.fsync`), before it happens, and keeps how to undo it. So no operation of the worker can bypass it, and the
worker needs no seam but the event of a sync. RocksDB's own files are not seen here: it syncs its tables and its
manifest when it flushes, and has no log.

Invariant: `sync` of a file keeps its content, `sync` of a directory keeps its names. Of all else a power loss keeps
any subset, as a real disk may.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final, Self
from weakref import WeakSet

_LOCK: Final = "lock"
_IMMUTABLE: Final = frozenset({".sst", ".seg"})
_NO_DIRECTORY: Final = -1
_numbers = count()


@dataclass(slots=True)
class _Change:
    """A change of one name: what it named before (None: nothing), kept below `trash`."""

    path: str
    before: Path | None
    content: bool
    """The content was written, so the file must be synced as well as its directory."""
    name_synced: bool = False
    content_synced: bool = False


@dataclass(eq=False)
class Volume:
    """The state directory of one worker. `changes` are those that a power loss may undo."""

    home: Path
    name: str
    changes: list[_Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        number = next(_numbers)
        self.path = self.home / f"{self.name}.{number}"
        self.path.mkdir(parents=True)
        # One for all volumes: a copy may undo what was changed in the volume that it was made of.
        self._trash = self.home / "before"
        self._root = f"{self.path}/"
        _watch(self)

    # -- what a crash leaves ---------------------------------------------------------------------

    def after_kill(self) -> Self:
        """Return a copy as of now: the volume that the next process finds."""
        copy = type(self)(self.home, self.name)
        _copy_tree(self.path, copy.path)
        copy.changes = [
            _Change(
                str(copy.path / Path(c.path).relative_to(self.path)),
                c.before,
                c.content,
                c.name_synced,
                c.content_synced,
            )
            for c in self.changes
        ]
        return copy

    def after_power_loss(self, random: Random) -> Self:
        """Return a copy without a random part of what was not synced."""
        copy = self.after_kill()
        # A journal keeps the order of changes; a disk without one may keep any of them.
        ordered = random.random() < 0.5
        begin = random.randrange(len(copy.changes) + 1)
        for place in range(len(copy.changes) - 1, -1, -1):
            change = copy.changes[place]
            lost = place >= begin if ordered else random.random() < 0.5
            path = Path(change.path)
            if lost and not change.name_synced:
                _put_back(path, change.before)
            elif change.content and not change.content_synced and path.is_file():
                size = path.stat().st_size
                os.truncate(path, random.randrange(size + 1) if size else 0)
        copy.changes.clear()
        return copy

    def delete(self) -> None:
        """Remove it. What was kept for a power loss goes with `home`."""
        _watched.discard(self)
        shutil.rmtree(self.path, ignore_errors=True)

    # -- what the worker does --------------------------------------------------------------------

    def owns(self, path: str) -> bool:
        """Return whether a path is below this volume."""
        return path.startswith(self._root) or path == str(self.path)

    def named(self, path: str, *, content: bool = False) -> None:
        """Note that a name is about to be created, replaced or removed."""
        if os.path.basename(path) == _LOCK:  # noqa: PTH119 (called for each opening of a file)
            return
        self.changes.append(_Change(path, self._keep(path), content))

    def synced(self, path: str) -> None:
        """Note that a file or directory is synced."""
        for change in self.changes:
            if change.path == path:
                change.content_synced = True
            elif os.path.dirname(change.path) == path:  # noqa: PTH120 (called for each sync)
                change.name_synced = True
        self.changes = [
            c for c in self.changes if not (c.name_synced and (c.content_synced or not c.content))
        ]

    def renamed(self, source: str, target: str) -> None:
        """Note that a file or directory is about to get another name."""
        self.named(source)
        for change in self.changes[:-1]:
            if change.path == source and change.content and not change.content_synced:
                # Its content may still be lost under the new name.
                self.changes.append(_Change(target, self._keep(target), content=True))
                break
        else:
            self.named(target)

    def _keep(self, path: str) -> Path | None:
        """Keep what a name stands for now."""
        if not os.path.lexists(path):
            return None
        kept = self._trash / str(next(_numbers))
        self._trash.mkdir(exist_ok=True)
        _copy(Path(path), kept)
        return kept


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        target.mkdir()
        _copy_tree(source, target)
    elif source.suffix in _IMMUTABLE:
        os.link(source, target)
    else:
        shutil.copyfile(source, target)


def _copy_tree(source: Path, target: Path) -> None:
    for entry in os.scandir(source):
        with suppress(FileNotFoundError):  # RocksDB's threads delete files meanwhile
            _copy(Path(entry.path), target / entry.name)


def _put_back(path: Path, before: Path | None) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if before is not None and path.parent.is_dir():
        _copy(before, path)


# -- audit events ------------------------------------------------------------------------------------

_watched: WeakSet[Volume] = WeakSet()
_hooked: list[bool] = []
_inside: list[bool] = []


def _watch(volume: Volume) -> None:
    """Tell a volume of its changes from now on. A hook can't be removed, so there is one."""
    _watched.add(volume)
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_on_event)


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    handle = _HANDLERS.get(event)
    if handle is None or _inside:
        return
    _inside.append(True)
    try:
        handle(arguments)
    finally:
        _inside.clear()


def _volumes_of(path: object) -> Iterator[tuple[Volume, str]]:
    if isinstance(path, str | os.PathLike):
        text = os.fspath(path)
        if isinstance(text, str):
            yield from ((volume, text) for volume in tuple(_watched) if volume.owns(text))


def _on_open(arguments: tuple[Any, ...]) -> None:
    path, _, flags = arguments
    if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        for volume, text in _volumes_of(path):
            volume.named(text, content=True)


def _on_rename(arguments: tuple[Any, ...]) -> None:
    source, target, *_ = arguments
    for volume, text in _volumes_of(source):
        volume.renamed(text, os.fspath(target))


def _on_name(arguments: tuple[Any, ...]) -> None:
    path, *rest = arguments
    if not rest or rest[-1] in {
        None,
        _NO_DIRECTORY,
    }:  # a name below a directory: of a tree that goes
        for volume, text in _volumes_of(path):
            volume.named(text)


def _on_mkdir(arguments: tuple[Any, ...]) -> None:
    for volume, text in _volumes_of(arguments[0]):
        if not os.path.lexists(text):
            volume.named(text)


def _on_link(arguments: tuple[Any, ...]) -> None:
    for volume, text in _volumes_of(arguments[1]):
        volume.named(text)


def _on_sync(arguments: tuple[Any, ...]) -> None:
    for volume, text in _volumes_of(arguments[0]):
        volume.synced(text)


_HANDLERS: Final = {
    "open": _on_open,
    "os.rename": _on_rename,
    "os.remove": _on_name,
    "shutil.rmtree": _on_name,
    "os.mkdir": _on_mkdir,
    "os.link": _on_link,
    "dedupe_worker.fsync": _on_sync,
}
