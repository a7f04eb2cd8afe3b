"""Installation of the peers, once, into the project's cache outside the tree.

Everything is locked: jars by jars.json, Python packages by the requirements files in the same folder.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks.harness.processes import BenchmarkFailed
from dedupe_pipeline.runtime.jars import cache_dir, resolve
from dedupe_pipeline.runtime.java import find_java

PROGRAMS: Final = Path(__file__).parent / "programs"

_LOCKS: Final = Path(__file__).parent / "locks"
_UV: Final = Path(sys.executable).parent / "uv"
_INSTALLED: Final = ".installed"  # is written last: without it a directory is unfinished
_SHOWN_LINES: Final = 15

_console = Console(stderr=True)


def jars(name: str, coordinates: Sequence[str], *, transitive: bool = True) -> list[Path]:
    """Return the jars of Maven coordinates "group:artifact:version".

    Raises JarsUnavailable.
    """
    return resolve(name, coordinates, transitive=transitive, locks=_LOCKS / "jars.json")


def virtual_environment(name: str) -> Path:
    """Return a virtual environment with exactly the packages of locks/NAME.txt.

    Raises BenchmarkFailed.
    """
    lock = _LOCKS / f"{name}.txt"

    def make(target: Path) -> None:
        _run(_UV, "venv", "--quiet", "--python", sys.executable, "--allow-existing", target)
        _run(
            *(_UV, "pip", "install", "--quiet", "--python", target / "bin" / "python"),
            # The lock names all there is to install.
            *("--require-hashes", "--no-deps", "-r", lock),
        )

    return _once(name, [lock.read_bytes(), sys.version.encode()], make)


def java_classes(source: Path, class_path: Iterable[Path]) -> Path:
    """Return a directory with the classes of a source file.

    Raises BenchmarkFailed, also where there is no JDK.
    """
    paths = [*class_path]
    inputs = [source.read_bytes(), *(path.name.encode() for path in paths)]

    def make(target: Path) -> None:
        libraries = ":".join(map(str, paths))
        _run(_javac(), "-proc:none", "-nowarn", "-cp", libraries, "-d", target, source)

    return _once(source.stem, inputs, make)


def java_version() -> str:
    """Return the name of the peers' Java, such as "openjdk 17.0.15 2025-04-15"."""
    asked = subprocess.run([find_java(), "--version"], capture_output=True, text=True, check=True)
    return asked.stdout.splitlines()[0]


def _javac() -> Path:
    java = find_java()
    # Not of the link's directory: a JRE may be what the name `java` leads to.
    found = java.resolve().with_name("javac")
    if not found.exists():
        raise BenchmarkFailed(
            f"{java} comes without a compiler, and peers in Java are compiled here: install a JDK "
            "(Debian: apt-get install openjdk-17-jdk-headless) or set JAVA_HOME to one."
        )
    return found


def _once(name: str, inputs: Iterable[bytes], make: Callable[[Path], None]) -> Path:
    """Return the directory that `make` fills; it is filled again if inputs change."""
    digest = hashlib.sha256(b"\0".join(inputs)).hexdigest()[:12]
    target = cache_dir() / "peers" / f"{name}-{digest}"
    if not (target / _INSTALLED).exists():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        with _console.status(f"installing {name} into {target.parent}"):
            make(target)
        (target / _INSTALLED).touch()
    return target


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-_SHOWN_LINES:])
        raise BenchmarkFailed(f"{Path(command[0]).name} ended with {done.returncode}:\n{last}")
