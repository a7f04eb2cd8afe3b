"""The images of the project for the test cluster, as archives.

An image is built if a file of its context, the Dockerfile or the base has changed since its last build. Then buildah
repeats the steps whose input has changed.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.builder import Builder, builder, say
from tests.cluster.paths import REPOSITORY

PARTS = ("worker", "operator")
"""The images that a release needs."""

PIPELINE = "pipeline"
"""A large image, built only for tests that run Spark in a pod."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image in an archive that docker and containerd can load."""

    part: str
    name: str
    archive: Path
    key: str


def version() -> str:
    """Return the version of the images, which is the project's version."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def image_name(part: str) -> str:
    """Return the name of a part's image."""
    return f"dedupestream/{part}:{version()}"


def build_images(parts: Sequence[str] = PARTS) -> list[Image]:
    """Build the images that have changed; needs root. Raises ClusterError."""
    with builder() as found:
        inputs = f"{context_digest(REPOSITORY)} {found.base()}"
        return [_image(found, part, inputs) for part in parts]


def context_files(repository: Path) -> Iterator[Path]:
    """Yield the files that an image is built from: the Dockerfile, and what .dockerignore lets pass."""
    lines = (repository / ".dockerignore").read_text().splitlines()
    passed = [line.removeprefix("!") for line in lines if line.startswith("!")]
    for name in ("Dockerfile", ".dockerignore", *sorted(passed)):
        found = repository / name
        for file in sorted(found.rglob("*")) if found.is_dir() else [found]:
            if file.is_file() and "__pycache__" not in file.parts:
                yield file


def context_digest(repository: Path) -> str:
    """Return a digest of all that an image is built from, with names and modes."""
    digest = hashlib.sha256()
    for file in context_files(repository):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        mode = file.stat().st_mode & 0o777
        digest.update(f"{file.relative_to(repository)} {mode:o} {content}\n".encode())
    return digest.hexdigest()


def _image(found: Builder, part: str, inputs: str) -> Image:
    record = found.cache / f"image-{part}.json"
    archive = found.cache / f"image-{part}.tar"
    last = json.loads(record.read_text()) if record.exists() else {}
    if last.get("inputs") != inputs:
        say(f"building the image of the {part}")
        image = found.build(REPOSITORY, part)
        if last.get("image") != image:
            record.unlink(missing_ok=True)
            found.export(image, image_name(part), archive)
        last = {"inputs": inputs, "image": image}
        record.write_text(json.dumps(last))
    return Image(part=part, name=image_name(part), archive=archive, key=last["image"])
