"""What a snapshot is made of: its manifest, which names the contents of all its files."""

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
    """One file: its path in the checkpoint's directory, size in bytes, and the name of its content."""

    # A manifest says where files are written to: it must not be able to name a place elsewhere.
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
        """Size of the whole."""
        return sum(each.size for each in self.files)
