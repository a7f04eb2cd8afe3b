"""Pack a chart into an archive that helm installs, as `helm package` does.

`make dist` runs it as `python -m charts.package CHART DIRECTORY`. It needs no helm, and the archive
depends on the chart's files and SOURCE_DATE_EPOCH alone: the same files give the same bytes.
"""

import gzip
import io
import os
import sys
import tarfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import yaml

_EPOCH = 1_580_601_600  # 2020-02-02, the date that hatchling gives the files of a wheel


def package(chart: Path, directory: Path) -> Path:
    """Write NAME-VERSION.tgz of a chart into a directory, and return its path.

    Raises:
        ValueError: .helmignore has a pattern that is not understood here.
    """
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    archive = directory / f"{about['name']}-{about['version']}.tgz"
    mtime = int(os.environ.get("SOURCE_DATE_EPOCH", _EPOCH))
    directory.mkdir(parents=True, exist_ok=True)
    with (
        archive.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=mtime) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for path in chart_files(chart):
            content = path.read_bytes()
            entry = tarfile.TarInfo(f"{about['name']}/{path.relative_to(chart).as_posix()}")
            entry.size, entry.mtime, entry.mode = len(content), mtime, 0o644
            tar.addfile(entry, io.BytesIO(content))
    return archive


def chart_files(chart: Path) -> Iterator[Path]:
    """Yield the files of a chart that .helmignore does not exclude, in a fixed order."""
    ignored = _ignored_names(chart / ".helmignore")
    for path in sorted(chart.rglob("*")):
        names = path.relative_to(chart).parts
        if path.is_file() and not any(
            fnmatch(name, pattern) for name in names for pattern in ignored
        ):
            yield path


def _ignored_names(helmignore: Path) -> list[str]:
    """Return the patterns of a .helmignore, which must be patterns of a file's name."""
    lines = helmignore.read_text(encoding="utf-8").splitlines() if helmignore.exists() else []
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    for pattern in patterns:
        if "/" in pattern or pattern.startswith("!"):
            raise ValueError(f"{helmignore}: {pattern!r} is no pattern of a file's name")
    return patterns


if __name__ == "__main__":
    sys.stdout.write(f"{package(Path(sys.argv[1]), Path(sys.argv[2]))}\n")
