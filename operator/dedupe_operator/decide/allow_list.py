"""Judge a stream by the images and servers that the platform allows.

The reconciler asks about streams, the credentials about token endpoints. Pure.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dedupe_crds.spec.stream import DedupeStream
from dedupe_operator.decide.diagnosis import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowList:
    """Things that streams may name; all images or servers if the list is empty.

    `images` are images, repositories or registries; `bootstrap_servers` are hosts, or hosts with a port, and
    *.example.com stands for all hosts below example.com. `token_endpoints` are whole URLs: the operator sends no
    request to any other.
    """

    images: tuple[str, ...] = ()
    bootstrap_servers: tuple[str, ...] = ()
    token_endpoints: tuple[str, ...] = ()

    def refusal(self, stream: DedupeStream) -> Problem | None:
        """Return the first that a stream has and that is not allowed, None if all is."""
        if self.bootstrap_servers:
            for server in stream.spec.kafka.bootstrap_servers.split(","):
                if not self._has_server(server):
                    return _refused("spec.kafka.bootstrapServers", server, self.bootstrap_servers)
        if self.images:
            for field, image in _images(stream):
                if not any(_is_below(image, allowed) for allowed in self.images):
                    return _refused(field, image, self.images)
        return None

    def _has_server(self, server: str) -> bool:
        host = server.rpartition(":")[0]
        return any(
            _is_host(server if ":" in allowed.rpartition("]")[2] else host, allowed)
            for allowed in self.bootstrap_servers
        )


def _refused(field: str, what: str, allowed: tuple[str, ...]) -> Problem:
    return Problem(
        reason="NotAllowed",
        message=f"{field}: {what} is not allowed here, only {', '.join(allowed)}; the platform's administrators "
        "configure that in the operator's chart (allowed). The stream is left as it is",
    )


def _is_host(name: str, allowed: str) -> bool:
    name, allowed = name.lower(), allowed.lower()
    return name.endswith(allowed[1:]) if allowed.startswith("*.") else name == allowed


def _is_below(image: str, allowed: str) -> bool:
    """Return whether an image is `allowed`, a version of it, or below it."""
    name = allowed.rstrip("/")
    if not image.startswith(name):
        return False
    rest = image.removeprefix(name)
    if rest.startswith("/"):
        # A word alone is an image of Docker Hub; what follows a slash there is of the user with that name.
        return "/" in allowed or "." in name or ":" in name or name == "localhost"
    # After a colon comes a tag, which has no slash; a port would be another registry.
    is_tag = rest.startswith(":") and "/" not in rest
    return not rest or is_tag or rest[0] == "@"


def _images(stream: DedupeStream) -> Iterator[tuple[str, str]]:
    """Yield each image that a stream has in its manifest, after its field."""
    worker = stream.spec.worker
    if worker.image is not None:
        yield "spec.worker.image", worker.image
    for number, sidecar in enumerate(worker.sidecars):
        image = (sidecar.model_extra or {}).get("image")
        yield f"spec.worker.sidecars[{number}].image", str(image or "")
    for number, volume in enumerate(worker.volumes):
        if (of_volume := (volume.model_extra or {}).get("image")) is not None:
            reference = of_volume.get("reference") if isinstance(of_volume, dict) else of_volume
            yield f"spec.worker.volumes[{number}].image", str(reference)
