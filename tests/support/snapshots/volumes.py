"""A small volume that a test can fill: a tmpfs, which needs the right to mount."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BLOCK_BYTES = 1 << 16


class Volume:
    """A mounted file system."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Use all free space, as other writers on the volume may."""
        with self._ballast.open("ab", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(b"\0" * _BLOCK_BYTES)
            except OSError as error:
                assert error.errno == 28, error  # ENOSPC  # noqa: PT017 # any other fails the test

    def free(self) -> None:
        """Free the space again."""
        self._ballast.unlink()


@contextmanager
def small_volume(path: Path, size_bytes: int) -> Iterator[Volume]:
    """Mount a tmpfs at `path`, and unmount it in any case.

    Raises CalledProcessError if mounting is not allowed: a test that needs it must not be skipped silently.
    """
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(path)]
    subprocess.run(mount, check=True, capture_output=True, text=True)
    try:
        yield Volume(path)
    finally:
        # Lazily: a worker that a failing test left behind still has files open there.
        subprocess.run(["umount", "--lazy", str(path)], check=True, capture_output=True, text=True)  # noqa: S607 # the system's
