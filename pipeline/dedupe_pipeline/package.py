"""Build the archive of this project's code for Spark's executors (`--py-files`).

The command `dedupe-pipeline package` calls it. The archive holds the packages that executors import and nothing else.
Of other projects executors need `EXECUTOR_PACKAGES`. Most of these are compiled, so no archive can bring them.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

EXECUTOR_PACKAGES: Final = ("confluent-kafka", "numpy", "orjson", "pyarrow", "python-jsonpath")
"""Names on PyPI. Only the data source needs confluent-kafka and python-jsonpath."""

_PACKAGES: Final = (
    "dedupe_crds",
    "dedupe_filters",
    "dedupe_ids",
    "dedupe_kafka",
    "dedupe_pipeline",
)
_BEGINNING: Final = (1980, 1, 1, 0, 0, 0)  # the same files give the same bytes


def build(output: Path) -> None:
    """Write the archive; an existing file is replaced as a whole."""
    unfinished = output.with_name(f".{output.name}.unfinished")
    with ZipFile(unfinished, "w", ZIP_DEFLATED) as archive:
        for root in map(_directory, _PACKAGES):
            for file in sorted(root.rglob("*.py")):
                entry = ZipInfo(file.relative_to(root.parent).as_posix(), _BEGINNING)
                archive.writestr(entry, file.read_bytes(), ZIP_DEFLATED)
    unfinished.rename(output)


def _directory(package: str) -> Path:
    found = find_spec(package)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"{package} is not installed here")
    return Path(found.origin).parent
