"""Damage files as a bad disk does."""

import os
from pathlib import Path


def files_of(directory: Path, pattern: str) -> list[Path]:
    """Return files by pattern, oldest first, as RocksDB numbers them; fail if none."""
    found = sorted(directory.glob(pattern))
    assert found, f"{directory} holds no {pattern}"
    return found


def cut_off(file: Path, kept: float) -> None:
    """Truncate a file to this part (0 to 1), by a byte at least."""
    size = file.stat().st_size
    os.truncate(file, min(int(size * kept), size - 1))


def flip_a_byte(file: Path, place: float) -> None:
    """Change the byte at a relative position `place` (0 to 1) of a file."""
    content = bytearray(file.read_bytes())
    content[min(int(len(content) * place), len(content) - 1)] ^= 0xFF
    file.write_bytes(content)
