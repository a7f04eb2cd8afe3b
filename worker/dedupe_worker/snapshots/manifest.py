"""The manifest of a snapshot, which names the contents of all its files.

`bucket` reads and writes it.
"""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from dedupe_worker.store.checkpoint import CheckpointRecord

DATABASE: Final = "db/"

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class FileEntry(_Model):
    """One file: path in the checkpoint, size in bytes, and name of its content."""

    # A manifest says where files are written: it must not be able to name another directory.
    path: Annotated[str, Field(pattern=r"^(checkpoint\.json|db/[A-Za-z0-9_-][A-Za-z0-9._-]*)$")]
    size: Annotated[int, Field(ge=0)]
    sha256: Sha256


class Manifest(_Model):
    """The content of `snapshots/<name>.json`."""

    format: Literal[1] = 1
    name: str
    record: CheckpointRecord
    files: list[FileEntry]

    @property
    def bytes(self) -> int:
        """Return the size of all files."""
        return sum(each.size for each in self.files)
