"""Record that a rebuild was begun whose window is shorter than configured.

It is on the volume: the store that would show it is discarded before the rebuilt one has the mark on disk.
"""

from dataclasses import dataclass
from pathlib import Path

from dedupe_kafka.offsets import LastRead
from dedupe_worker.recovery.lost_tail import NOTHING_KNOWN, Known
from dedupe_worker.store.state_dir import StateDirectory, write_atomically


@dataclass(frozen=True, slots=True)
class ShortenedRebuild:
    """The record, in a file of the state directory."""

    state: StateDirectory

    @property
    def is_recorded(self) -> bool:
        """Return whether such a rebuild was begun and has no store yet."""
        return self._path.exists()

    @property
    def reason(self) -> str:
        """Return the reason of that rebuild; empty if it is not known."""
        return self._fields()[2]

    def record(self, reason: str, known: Known = NOTHING_KNOWN, input_topic: str = "") -> None:
        """Write it, with how far the discarded store had read an input topic."""
        fields = (known.offset, input_topic, reason, known.last_read.end, known.last_read.epoch)
        write_atomically(self._path, " ".join(map(str, fields)))

    def read_before(self, input_topic: str) -> Known:
        """Return how far the discarded store had read this input topic."""
        offset, topic, _, end, epoch = self._fields()
        if topic != input_topic:
            return NOTHING_KNOWN
        return Known(int(offset), LastRead(int(end), int(epoch)))

    def forget(self) -> None:
        """Remove it, because the rebuilt store has the mark on disk."""
        self._path.unlink(missing_ok=True)

    def _fields(self) -> list[str]:
        # Earlier versions leave it empty, or end before the reason, or after it.
        text = self._path.read_text() if self.is_recorded else ""
        fields, unknown = text.split(" ") if text else [], ["-1", "", "", "-1", "-1"]
        return fields + unknown[len(fields) :]

    @property
    def _path(self) -> Path:
        return self.state.root / "shortened"
