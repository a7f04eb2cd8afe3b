"""The images that the Dockerfile builds: their code, their bill of materials, and what is not in them.

They are built for real, in the cache that the test cluster also uses.
"""

import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from importlib.util import source_hash
from pathlib import Path

import pytest

from tests.cluster.builder import BASE, Builder, builder
from tests.cluster.errors import ClusterError
from tests.cluster.images import PARTS, context_files, version
from tests.cluster.paths import REPOSITORY

SITE_PACKAGES = "opt/dedupestream/lib/python3.11/site-packages"
SOURCE = "dedupe_worker/errors.py"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="buildah needs root here"),
]


@pytest.fixture(scope="module", name="images")
def _images() -> Iterator[Builder]:
    with builder() as found:
        yield found


@pytest.fixture(scope="module", params=PARTS, name="part")
def _part(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", name="image")
def _image(images: Builder, part: str) -> str:
    return images.build(REPOSITORY, part)


@pytest.fixture(scope="module", name="files")
def _files(images: Builder, image: str) -> Iterator[Path]:
    with images.files(image) as directory:
        yield directory


@pytest.fixture(name="checkout")
def _checkout(tmp_path: Path) -> Path:
    """A copy of what images are built from."""
    for file in context_files(REPOSITORY):
        copy = tmp_path / file.relative_to(REPOSITORY)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)
    return tmp_path


def test_a_changed_source_file_is_in_the_image(images: Builder, checkout: Path) -> None:
    images.build(checkout, "worker")  # now each step's result is cached
    source = checkout / "worker" / SOURCE
    source.write_text(f"{source.read_text()}# {uuid.uuid4()}\n")

    with images.files(images.build(checkout, "worker")) as files:
        found = (files / SITE_PACKAGES / SOURCE).read_bytes()
        (bytecode,) = (files / SITE_PACKAGES / SOURCE).parent.glob("__pycache__/errors.*.pyc")
        compiled_from = bytecode.read_bytes()[8:16]

    assert found == source.read_bytes()
    # Python uses the bytecode without a check of its source.
    assert compiled_from == source_hash(found)


def test_an_image_without_changes_is_the_same_image(
    images: Builder, image: str, part: str, checkout: Path
) -> None:
    assert images.build(checkout, part) == image


def test_the_bill_of_materials_lists_what_is_installed(files: Path, part: str) -> None:
    bill = json.loads((files / "opt/dedupestream/sbom.cdx.json").read_text())
    listed = {(_normalized(each["name"]), each["version"]) for each in bill["components"]}
    product = (_normalized("dedupestream"), version())

    assert listed | {product} == set(_installed(files))
    assert bill["metadata"]["component"]["name"] == f"dedupestream-{part}"


def test_an_image_has_its_command_its_user_and_its_labels(
    images: Builder, image: str, part: str
) -> None:
    config = images.config(image)["config"]

    assert config["Entrypoint"] == [f"dedupe-{part}"]
    assert config["User"] == "65532:65532"
    labels = {
        name.removeprefix("org.opencontainers.image."): value
        for name, value in config["Labels"].items()
    }
    assert labels["title"] == f"dedupestream {part}"
    assert labels["version"] == version()
    assert labels["licenses"] == "Apache-2.0"
    assert labels["description"]


def test_an_image_has_nothing_of_its_build(files: Path) -> None:
    for path in ("build", "code", "requirements", "wheel", "opt/tools", "etc/pip.conf"):
        assert not (files / path).exists(), path
    assert not list((files / SITE_PACKAGES).glob("pip*"))
    certificates = "etc/ssl/certs/ca-certificates.crt"
    mozilla = (files / "usr/share/ca-certificates/mozilla").glob("*.crt")
    assert set(_pem(files / certificates)) == {each for path in mozilla for each in _pem(path)}


def test_a_base_of_another_architecture_is_refused(images: Builder, checkout: Path) -> None:
    with pytest.raises(ClusterError, match="building at STEP"):
        images.build(checkout, "worker", "--build-arg", "TARGETARCH=riscv64")


def test_the_base_is_an_argument(images: Builder, checkout: Path) -> None:
    with pytest.raises(ClusterError, match="localhost/absent"):
        images.build(checkout, "worker", "--build-arg", "BASE=localhost/absent")
    assert BASE not in (checkout / "Dockerfile").read_text()


def _installed(files: Path) -> Iterator[tuple[str, str]]:
    for path in (files / SITE_PACKAGES).glob("*.dist-info"):
        name, _, its_version = path.stem.rpartition("-")
        yield _normalized(name), its_version


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pem(path: Path) -> list[str]:
    return re.findall(r"-----BEGIN.*?END[^\n]*", path.read_text(), re.DOTALL)
