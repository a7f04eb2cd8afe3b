"""Notice that the manifest of a run has changed, and do what needs no restart."""

from pathlib import Path
from typing import Final

from dedupe_crds.manifest import ManifestError, load_manifest
from dedupe_crds.spec.repartition import Repartition
from dedupe_crds.spec.stream import DedupeStream
from dedupe_growth.before_routers import check_partitions
from dedupe_kafka.errors import TopicUnusable
from dedupe_local.run.fleet import Fleet
from dedupe_local.run.stream_changes import with_bootstrap_servers, with_routers

_NO_RESTART: Final = {
    "input": {"added_partitions"},
    "repartition": {"partitions"},
}
"""Fields of the spec that are applied at once."""

_STOP_AND_START: Final = "The manifest has changed: stop and start the run to apply it."


class ManifestChanges:
    """Compares the file of a stream with what runs.

    `servers` replace those of the file.
    """

    def __init__(
        self, path: Path | None, stream: DedupeStream, *, servers: str | None = None
    ) -> None:
        self._path = path
        self._stream = stream
        self._servers = servers
        self._seen = self._version()
        self.routed: DedupeStream | None = None
        """The stream with routers, once the manifest adds them."""

    def apply(self, fleet: Fleet) -> list[str]:
        """Apply a change since the last call; return lines for the user."""
        version = self._version()
        if self._path is None or version is None or version == self._seen:
            return []
        self._seen = version
        try:
            wanted = load_manifest(self._path)
        except ManifestError as error:
            return [f"The manifest has changed, and is not used: {error}"]
        if self._servers is not None:
            wanted = with_bootstrap_servers(wanted, self._servers)
        lines = []
        accepts = wanted.spec.input.accepts_added
        accepted = fleet.stream.spec.input.accepts_added
        if accepts and not accepted:
            fleet.accept_added()
            lines.append("Partitions that are added to the input get workers from now on.")
        elif accepted and not accepts:
            lines.append(
                "Stop and start the run to have partitions wait that are added to the input."
            )
        lines += _grow(fleet, wanted)
        repartition = wanted.spec.repartition
        if fleet.stream.spec.repartition is None and repartition is not None:
            return [*lines, *self._add_routers(fleet, wanted, repartition)]
        if _rest(wanted) != _rest(self._stream):
            lines.append(_STOP_AND_START)
        return lines

    def _add_routers(
        self, fleet: Fleet, wanted: DedupeStream, repartition: Repartition
    ) -> list[str]:
        """Have the stream begin again behind routers, if that is all that changes."""
        try:
            check_partitions(len(fleet.views()), repartition.partitions)
        except TopicUnusable as error:
            return [f"{error}."]
        if _rest(wanted) != _rest(with_routers(self._stream, repartition)):
            return [_STOP_AND_START]
        self.routed = with_routers(fleet.stream, repartition)
        return ["The stream gets routers: its workers stop, and start again behind them."]

    def _version(self) -> tuple[int, int] | None:
        """Return what changes with the file; None while it is replaced."""
        try:
            found = self._path.stat() if self._path else None
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size) if found else None


def _grow(fleet: Fleet, wanted: DedupeStream) -> list[str]:
    """Ask for a growth if the manifest does; return lines for the user."""
    asked, runs = wanted.spec.repartition, fleet.stream.spec.repartition
    if asked is None or runs is None or asked.partitions == runs.partitions:
        return []
    if asked.partitions < runs.partitions:
        return [
            f"spec.repartition.partitions is {asked.partitions}, and the stream has {runs.partitions}: it can only "
            "grow."
        ]
    fleet.grow(asked.partitions)
    return [f"The stream grows from {runs.partitions} to {asked.partitions} partitions."]


def _rest(stream: DedupeStream) -> dict[str, object]:
    """Return the spec without what needs no restart."""
    rest: dict[str, object] = stream.spec.model_dump(exclude=_NO_RESTART)
    return rest
