"""Builds our images without a container engine, by the steps that the Dockerfile runs as well.

Each step's result is kept outside the tree under a key of all it is made from, so that a change of
our own code costs seconds and no change costs nothing. An image has three layers, from below: Debian
with Python, the dependencies of its part, our code. The pipeline's has two more: Java, and Spark's jars
for Kafka, which come from this machine's cache of them.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from dedupe_pipeline.runtime.jars import cache_dir, spark_kafka
from images import locked
from tests.cluster.errors import run
from tests.cluster.paths import CLUSTER_SH, IMAGE_STEP_SH, REPOSITORY

PARTS = ("worker", "operator")
"""Those that a release needs."""

PIPELINE = "pipeline"
"""Large, and asked for by what runs Spark in a pod alone."""

_STEP_SECONDS = 1200.0
_UNUSED_SECONDS = 7 * 86400
_CODE = ("pyproject.toml", "README.md", "LICENSE")
_TARGET = "opt/dedupestream"
_JARS = f"{_TARGET}/cache"
_PACKAGES = (
    "crds",
    "kafka",
    "ids",
    "filters",
    "worker",
    "operator",
    "kubectl",
    "pipeline",
    "local",
)


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image in an archive that docker and containerd load."""

    part: str
    name: str
    archive: Path
    key: str


@dataclass(frozen=True, kw_only=True)
class _Layer:
    """The result of a step: its files, and from below the directories they were made on."""

    key: str
    directory: Path
    below: tuple[Path, ...]

    @property
    def tar(self) -> Path:
        return self.directory / "layer.tar"

    @property
    def stack(self) -> tuple[Path, ...]:
        """The directories, the lowest first."""
        return (*self.below, self.directory / "files")


def version() -> str:
    """The version of the images, which is the project's."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def image_name(part: str) -> str:
    """The name of a part's image."""
    return f"dedupestream/{part}:{version()}"


def build_images(parts: Sequence[str] = PARTS) -> list[Image]:
    """Build what is not there yet; needs root. Raises ClusterError."""
    with _locked_cache() as cache:
        base = _base(cache)
        built = [_image(cache, base, part) for part in parts]
        _forget_unused(cache)
        return built


def _image(cache: Path, base: _Layer, part: str) -> Image:
    system = [base]
    if part == PIPELINE:
        system.append(_step(cache, base, "java", makes="."))
    tools = _step(cache, system[-1], "tools", made_from=_build_requires())
    wanted = locked.requirements(REPOSITORY, part)
    dependencies = _step(
        cache, tools, "dependencies", part, made_from=_digest([wanted]), makes=_TARGET
    )
    own = _digest_of_files([*_CODE, *_PACKAGES])
    code = _step(cache, dependencies, "code", part, made_from=own, makes=_TARGET)
    layers = [*system, dependencies, code]
    variables = ["PATH=/opt/dedupestream/bin:/usr/local/bin:/usr/bin:/bin", "PYTHONUNBUFFERED=1"]
    if part == PIPELINE:
        layers.append(_jars(cache))
        variables.append(f"DEDUPESTREAM_CACHE=/{_JARS}")
    config = json.dumps(
        {
            "Env": variables,
            "User": "65532:65532",
            "WorkingDir": "/tmp",  # noqa: S108 # the container's
            "Entrypoint": [f"dedupe-{part}"],
        }
    )
    name = image_name(part)
    key = _digest([*(layer.key for layer in layers), config, name])
    archive = cache / f"image-{part}-{key}.tar"
    if not archive.exists():
        for older in cache.glob(f"image-{part}-*.tar"):
            older.unlink()  # large, and made again from its layers in seconds
        tars = [layer.tar for layer in layers]
        run(
            [CLUSTER_SH, "mkimage", name, archive, config, *tars],
            what=f"writing image {name}",
            timeout_seconds=_STEP_SECONDS,
        )
    os.utime(archive)
    return Image(part=part, name=name, archive=archive, key=key)


def _build_requires() -> str:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    return _digest(project["build-system"]["requires"])


def _debian(cache: Path) -> Path:
    debian = cache / "debian-bookworm"
    if not debian.exists():
        _say("unpacking Debian (once, 30 s)")
        fresh = cache / "debian-bookworm.new"
        shutil.rmtree(fresh, ignore_errors=True)
        run([CLUSTER_SH, "debian", fresh], what="unpacking Debian", timeout_seconds=_STEP_SECONDS)
        fresh.rename(debian)
    os.utime(debian)
    return debian


def _base(cache: Path) -> _Layer:
    """The lowest layer of every image."""
    debian = _debian(cache)
    key = _digest_of_files(["images/install.sh"])
    layer = _Layer(key=key, directory=cache / f"base-{key}", below=())
    with _made(layer, "image step base") as fresh:
        if fresh is not None:
            files = fresh / "files"
            run(["cp", "-a", debian, files], what="copying Debian", timeout_seconds=_STEP_SECONDS)
            _run_step(cache, files, "", "base")
            _archive(files, ".", fresh / layer.tar.name)
    return layer


def _step(
    cache: Path, below: _Layer, step: str, part: str = "", *, made_from: str = "", makes: str = ""
) -> _Layer:
    """Run a step; `makes` is what of its result goes into an image."""
    key = _digest([below.key, step, part, made_from])
    name = f"{step}-{part}-{key}" if part else f"{step}-{key}"
    layer = _Layer(key=key, directory=cache / name, below=below.stack)
    with _made(layer, f"image step {step} {part}".rstrip()) as fresh:
        if fresh is not None:
            files = fresh / "files"
            files.mkdir()
            lower = ":".join(map(str, reversed(below.stack)))
            _run_step(cache, files, lower, step, *([part] if part else []))
            if makes:
                # When it was built is no part of it: the same files are the same layer.
                _archive(files, makes, fresh / layer.tar.name, "--mtime=@0")
    return layer


def _jars(cache: Path) -> _Layer:
    jars = spark_kafka()
    key = _digest([jars[0].parent.name, *(jar.name for jar in jars)])
    layer = _Layer(key=key, directory=cache / f"jars-{key}", below=())
    with _made(layer, "image step jars") as fresh:
        if fresh is not None:
            to = fresh / "files" / _JARS / "jars" / jars[0].parent.name
            to.mkdir(parents=True)
            for jar in jars:
                shutil.copyfile(jar, to / jar.name)
            _archive(fresh / "files", _TARGET, fresh / layer.tar.name, "--mtime=@0")
    return layer


@contextmanager
def _made(layer: _Layer, what: str) -> Iterator[Path | None]:
    """Yield a directory to fill if the layer is not there, which takes its name when the block ends well."""
    if layer.directory.exists():
        yield None
    else:
        _say(what)
        fresh = layer.directory.with_name(f"{layer.directory.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        try:
            yield fresh
            fresh.rename(layer.directory)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    os.utime(layer.directory)


def _run_step(cache: Path, files: Path, lower: str, *step: str) -> None:
    run(
        [IMAGE_STEP_SH, REPOSITORY, files, lower, cache / "pip", *step],
        what=f"image step {' '.join(step)}",
        timeout_seconds=_STEP_SECONDS,
    )


def _archive(files: Path, what: str, archive: Path, *options: str) -> None:
    without = [f"--exclude=./{path}" for path in ("dev/*", "proc/*", "sys/*", "tmp/*", "run/*")]
    # Debian's installer leaves this machine's there; a container gets its own.
    without += ["--exclude=./etc/resolv.conf", "--exclude=./etc/hostname"]
    ownership = ["--numeric-owner", "--sort=name", *options]
    run(
        ["tar", "-C", files, *ownership, *without, "-cf", archive, what],
        what=f"archiving {files}",
        timeout_seconds=_STEP_SECONDS,
    )


def _digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def _digest_of_files(paths: Iterable[str]) -> str:
    """A digest of files, and of all files below directories, that could get into an image."""
    digest = hashlib.sha256()
    for path in paths:
        found = REPOSITORY / path
        files = sorted(found.rglob("*")) if found.is_dir() else [found]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                content = hashlib.sha256(file.read_bytes()).hexdigest()
                mode = file.stat().st_mode & 0o777
                digest.update(f"{file.relative_to(REPOSITORY)} {mode:o} {content}\n".encode())
    return digest.hexdigest()[:16]


@contextmanager
def _locked_cache() -> Iterator[Path]:
    cache = cache_dir() / "images"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another process builds images: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield cache


def _forget_unused(cache: Path) -> None:
    """Remove what no build has asked for in a week."""
    oldest = time.time() - _UNUSED_SECONDS
    for path in cache.iterdir():
        if path.name in {"pip", "lock"} or path.stat().st_mtime > oldest:
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _say(what: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {what}", err=True)
