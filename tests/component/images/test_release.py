"""`make release-images` pushes images on a base that the registry names by digest; a real registry gets them."""

import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cluster.builder import BASE, Builder, builder, secrets
from tests.cluster.errors import run
from tests.cluster.images import version
from tests.cluster.paths import CLUSTER_SH, REPOSITORY, cluster_cache
from tests.support.patience import wait_for

SECONDS = 900.0
PLATFORM = "linux/amd64"
PART = "operator"

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="buildah needs root here"),
    pytest.mark.timeout(1200),  # the first build downloads Debian and all packages
    pytest.mark.matrix,  # a release is built without a cache
]


@pytest.fixture(scope="module", name="certificate")
def _certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of this machine's own, next to its key."""
    path = tmp_path_factory.mktemp("certificate") / "registry.crt"
    run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
            ),
            *("-nodes", "-subj", "/CN=registry", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", path.with_suffix(".key"), "-out", path),
        ],
        what="openssl req",
        timeout_seconds=SECONDS,
    )
    return path


@pytest.fixture(scope="module", name="registry")
def _registry(certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry on this machine: its host and port."""
    run([CLUSTER_SH, "packages"], what="fetching the registry", timeout_seconds=SECONDS)
    directory = tmp_path_factory.mktemp("registry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    tls = {"certificate": str(certificate), "key": str(certificate.with_suffix(".key"))}
    settings = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(directory / "images")}},
        "http": {"addr": address, "tls": tls},
    }
    config = directory / "config.yml"
    config.write_text(json.dumps(settings))
    program = cluster_cache() / "root/usr/bin/docker-registry"
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([program, "serve", config], stdout=log, stderr=log)
    try:
        wait_for(lambda: _answers(address), "the registry")
        yield address
    finally:
        process.terminate()
        process.wait(SECONDS)


@pytest.fixture(name="images")
def _images() -> Iterator[Builder]:
    with builder() as found:
        yield found


@pytest.fixture(name="variables")
def _variables(images: Builder, certificate: Path) -> Mapping[str, str]:
    """The environment in which buildah and skopeo trust the registry."""
    return {**images.environment(), "SSL_CERT_FILE": str(certificate)}


def test_a_release_is_a_list_by_architecture_on_a_base_by_digest(
    registry: str, variables: Mapping[str, str]
) -> None:
    base = f"{registry}/debian:bookworm-slim"
    push = ["buildah", "push", "--quiet", BASE, f"docker://{base}"]
    run(push, what="pushing the base", timeout_seconds=SECONDS, env=variables)
    base_digest = _digest(base, variables)

    name = f"{registry}/shop/{PART}:{version()}"
    for change in (["create", name], ["add", name, BASE]):  # a list of an earlier release
        run(
            ["buildah", "manifest", *change],
            what="buildah manifest",
            timeout_seconds=SECONDS,
            env=variables,
        )

    pushed = _release(registry, base, variables)

    assert pushed == f"{registry}/shop/{PART}@{_digest(name, variables)}"
    (entry,) = json.loads(_skopeo("--raw", name, variables))["manifests"]
    assert f"{entry['platform']['os']}/{entry['platform']['architecture']}" == PLATFORM
    labels = json.loads(_skopeo("--config", name, variables))["config"]["Labels"]
    assert labels["org.opencontainers.image.base.name"] == f"{registry}/debian@{base_digest}"
    assert labels["org.opencontainers.image.version"] == version()
    commit = run(
        ["git", "-C", REPOSITORY, "rev-parse", "HEAD"], what="git", timeout_seconds=SECONDS
    )
    assert labels["org.opencontainers.image.revision"].removesuffix("-dirty") == commit.strip()


def _release(registry: str, base: str, variables: Mapping[str, str]) -> str:
    options = [f"--base={base}", f"--platform={PLATFORM}", f"--part={PART}", *secrets()]
    return run(
        [
            *("make", "--silent", "-o", "setup", "release-images", f"REGISTRY={registry}/shop"),
            *(f"BIN={Path(sys.executable).parent}", f"ARGS={' '.join(options)}"),
        ],
        what="make release-images",
        timeout_seconds=SECONDS,
        env=variables,
    ).strip()


def _digest(name: str, variables: Mapping[str, str]) -> str:
    raw = _skopeo("--raw", name, variables)
    return f"sha256:{hashlib.sha256(raw.encode()).hexdigest()}"


def _skopeo(option: str, name: str, variables: Mapping[str, str]) -> str:
    command = ["skopeo", "inspect", option, f"docker://{name}"]
    return run(command, what=f"inspecting {name}", timeout_seconds=SECONDS, env=variables)


def _answers(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as client:
        return client.connect_ex((host, int(port))) == 0
