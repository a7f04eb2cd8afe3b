"""Build the images of a release for several architectures and push them to a registry.

`make release-images REGISTRY=registry.example/dedupestream` runs it. It needs buildah and skopeo, and for other
architectures than this machine's, qemu-user-static. The base is named by the digest that its registry has now.
"""

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

import click

PLATFORMS = ("linux/amd64", "linux/arm64")
"""The architectures of a release; the lock has wheels for them."""

_REPOSITORY = Path(__file__).parents[1]
_PARTS = ("worker", "operator", "pipeline")
_BASE = "docker.io/library/debian:bookworm-slim"


@click.command()
@click.argument("registry")
@click.option("--part", "parts", multiple=True, default=_PARTS, type=click.Choice(_PARTS))
@click.option("--platform", "platforms", multiple=True, default=PLATFORMS, show_default=True)
@click.option("--base", default=_BASE, show_default=True, help="Debian bookworm, with a tag.")
@click.option("--secret", "secrets", multiple=True, help="As of docker build; see the Dockerfile.")
def main(
    registry: str,
    parts: Sequence[str],
    platforms: Sequence[str],
    base: str,
    secrets: Sequence[str],
) -> None:
    """Build and push REGISTRY/worker, REGISTRY/operator and REGISTRY/pipeline; print their digests.

    Their tag is the project's version.
    """
    by_digest = resolved(base)
    click.echo(f"base: {by_digest}", err=True)
    arguments = {"BASE": by_digest, "REVISION": revision(), "VERSION": version()}
    options = [
        *(f"--build-arg={name}={value}" for name, value in arguments.items()),
        *(f"--secret={secret}" for secret in secrets),
    ]
    for part in parts:
        click.echo(release(f"{registry}/{part}:{version()}", part, platforms, options))


def release(name: str, part: str, platforms: Sequence[str], options: Sequence[str]) -> str:
    """Build a part's image for each platform and push it; return its name by digest."""
    # A list of an earlier run would keep its images.
    _run("buildah", "manifest", "rm", name, check=False)
    # buildah takes a label from its cache although its argument has changed. And a release gets Debian's updates.
    _run(
        *("buildah", "bud", "--no-cache", "--isolation=chroot", "--pull", "--manifest", name),
        *("--platform", ",".join(platforms), "--target", part, *options, str(_REPOSITORY)),
    )
    with tempfile.NamedTemporaryFile() as digest:
        _run(
            *("buildah", "manifest", "push", "--all", "--digestfile", digest.name),
            *(name, f"docker://{name}"),
        )
        return f"{_repository(name)}@{Path(digest.name).read_text().strip()}"


def resolved(base: str) -> str:
    """Return an image's name with the digest that its registry has for its tag."""
    found = _output("skopeo", "inspect", "--format", "{{.Digest}}", f"docker://{base}")
    return f"{_repository(base)}@{found}"


def revision() -> str:
    """Return the commit, with "-dirty" if the checkout differs from it."""
    describe = ("describe", "--always", "--abbrev=40", "--exclude=*", "--dirty")
    return _output("git", "-C", str(_REPOSITORY), *describe)


def version() -> str:
    """Return the project's version."""
    project = tomllib.loads((_REPOSITORY / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def _repository(name: str) -> str:
    """Return an image's name without its tag.

    >>> _repository("localhost:5000/debian:bookworm-slim"), _repository("localhost:5000/debian")
    ('localhost:5000/debian', 'localhost:5000/debian')
    """
    directory, slash, last = name.rpartition("/")
    return f"{directory}{slash}{last.partition(':')[0]}"


def _run(*command: str, check: bool = True) -> None:
    """Run a command; its progress is printed if it must succeed."""
    progress = sys.stderr if check else subprocess.DEVNULL
    subprocess.run(command, check=check, stdout=progress, stderr=progress)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


if __name__ == "__main__":
    main()
