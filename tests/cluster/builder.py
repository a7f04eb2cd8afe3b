"""Builds images from the Dockerfile with buildah, which needs no daemon, in storage outside the tree.

The base is a Debian that is unpacked here, in place of the registry's. Base and storage are made again after a week,
with Debian's updates, or when the storage has many images: buildah does not forget any. Needs root.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from dedupe_pipeline.runtime.jars import cache_dir
from tests.cluster.errors import run
from tests.cluster.paths import CLUSTER_SH

BASE = "localhost/debian:bookworm-slim"
"""The base of the tests' images."""

_SECONDS = 1800.0
_BASE_SECONDS = 7 * 86400
_MOST_IMAGES = 200  # a change of the code makes three, of some 10 MB each
_LOCK = "lock"
# What this machine needs to reach its package indexes, with the names that the Dockerfile gives them. Of pip's
# configurations, the first that exists.
_SECRETS = {
    "pip.conf": ("~/.config/pip/pip.conf", "~/.pip/pip.conf", "/etc/pip.conf"),
    "ca-certificates.crt": ("/etc/ssl/certs/ca-certificates.crt",),
    "cacerts": ("/etc/ssl/certs/java/cacerts",),
}


@dataclass(frozen=True, kw_only=True)
class Builder:
    """The images of a cache directory."""

    cache: Path

    def build(self, context: Path, part: str, *options: str) -> str:
        """Build a part's image from a checkout and return its id. Raises ClusterError."""
        identity = self.cache / f"{part}.id"
        self.buildah(
            *("bud", "--isolation=chroot", "--network=host", "--layers", "--pull=never"),
            *("--build-arg", f"BASE={BASE}", *secrets(), *options),
            *("--target", part, "--iidfile", str(identity), str(context)),
        )
        return identity.read_text().removeprefix("sha256:")

    def base(self) -> str:
        """Return the id of the base."""
        return self.buildah("images", "--quiet", "--no-trunc", BASE).strip()

    def export(self, image: str, name: str, archive: Path) -> None:
        """Write an image to an archive that containerd can load."""
        fresh = archive.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        self.buildah("push", "--quiet", image, f"docker-archive:{fresh}:{name}")
        fresh.rename(archive)

    def config(self, image: str) -> dict[str, Any]:
        """Return the configuration of an image, as Docker shows it."""
        found: dict[str, Any] = json.loads(self.buildah("inspect", "--type=image", image))
        return dict(found["OCIv1"])

    @contextmanager
    def files(self, image: str) -> Iterator[Path]:
        """Yield a directory with the files of an image."""
        container = self.buildah("from", "--pull-never", image).strip()
        try:
            yield Path(self.buildah("mount", container).strip())
        finally:
            self.buildah("rm", container)

    def buildah(self, command: str, *arguments: str) -> str:
        """Run a command of buildah in the cache's storage and return its output."""
        return run(
            ["buildah", command, *arguments],
            what=f"buildah {command}",
            timeout_seconds=_SECONDS,
            env=self.environment(),
        )

    def environment(self) -> dict[str, str]:
        """Return the environment in which buildah uses the cache's storage."""
        return {
            **os.environ,
            "CONTAINERS_STORAGE_CONF": str(self.cache / "storage.conf"),
            "TMPDIR": str(self.cache / "tmp"),
        }

    def prepare(self) -> None:
        """Make the base and the storage again if they are missing, old or large."""
        (self.cache / "tmp").mkdir(exist_ok=True)
        # What is mounted is lost with the machine's next start, and so is /run.
        runroot = f"/run/dedupestream-{hashlib.sha256(bytes(self.cache)).hexdigest()[:8]}"
        (self.cache / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{self.cache / "storage"}"\n'
            f'runroot = "{runroot}"\n'
        )
        made = self.cache / "base"
        fresh = made.exists() and made.stat().st_mtime > time.time() - _BASE_SECONDS
        if fresh and len(self.buildah("images", "--quiet").split()) <= _MOST_IMAGES:
            return
        for command in ("prerequisites", "packages"):
            run([CLUSTER_SH, command], what=f"cluster.sh {command}", timeout_seconds=_SECONDS)
        self.clear()
        say("unpacking Debian (about once a week, 30 s)")
        container = self.buildah("from", "scratch").strip()
        directory = self.buildah("mount", container).strip()
        run([CLUSTER_SH, "debian", directory], what="unpacking Debian", timeout_seconds=_SECONDS)
        self.buildah("config", "--cmd", "bash", container)
        self.buildah("commit", "--quiet", "--rm", container, BASE)
        made.touch()

    def clear(self) -> None:
        """Remove everything from the cache but its lock."""
        self.buildah("rm", "--all")
        # Not by buildah, which takes minutes to remove some hundred images.
        overlays = self.cache / "storage" / "overlay"
        if overlays.is_mount():
            run(
                ["umount", "--recursive", overlays],
                what="unmounting images",
                timeout_seconds=_SECONDS,
            )
        for path in self.cache.iterdir():
            if path.is_dir() and path.name != "tmp":
                shutil.rmtree(path)
            elif path.is_file() and path.name not in {_LOCK, "storage.conf"}:
                path.unlink()


def secrets() -> list[str]:
    """Return the options that give a build what reaches the package indexes from this machine."""
    found = {
        name: next((path for path in map(Path.expanduser, map(Path, paths)) if path.exists()), None)
        for name, paths in _SECRETS.items()
    }
    return [f"--secret=id={name},src={path}" for name, path in found.items() if path is not None]


@contextmanager
def builder() -> Iterator[Builder]:
    """Yield the builder of this machine, for one process at a time. Raises ClusterError."""
    cache = cache_dir() / "buildah"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process builds images: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        found = Builder(cache=cache)
        found.prepare()
        yield found


def say(what: str) -> None:
    """Print progress."""
    click.echo(f"{time.strftime('%H:%M:%S')} {what}", err=True)
