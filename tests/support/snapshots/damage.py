"""What happens to files on a bad disk."""

import os
from pathlib import Path


def files_of(directory: Path, pattern: str) -> list[Path]:
    """The files of a kind, oldest first: RocksDB numbers them. Fails if there is none."""
    found = sorted(directory.glob(pattern))
    assert found, f"{directory} holds no {pattern}"
    return found


def cut_off(file: Path, kept: float) -> None:
    """Keep this part of a file (0 to 1) and lose the rest, a byte at least."""
    size = file.stat().st_size
    os.truncate(file, min(int(size * kept), size - 1))


def flip_a_byte(file: Path, place: float) -> None:
    """Change one byte, `place` (0 to 1) of the way through a file."""
    content = bytearray(file.read_bytes())
    content[min(int(len(content) * place), len(content) - 1)] ^= 0xFF
    file.write_bytes(content)
