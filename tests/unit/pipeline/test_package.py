"""The archive for executors holds what tasks import, and needs few packages beside it."""

import json
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from dedupe_pipeline.package import build

IMPORTED_BY_TASKS = (
    "dedupe_ids.jump_hash",
    "dedupe_kafka.partitioners",
    "dedupe_pipeline.datasource.source",
    "dedupe_pipeline.udfs.encode",
    "dedupe_pipeline.udfs.json_id",
)
IMPORT = """
import importlib, json, sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    importlib.import_module(name)
print(json.dumps({name: str(getattr(module, "__file__", "")) for name, module in sys.modules.items()}))
"""


def test_tasks_import_our_code_from_the_archive_and_no_models(tmp_path: Path) -> None:
    archive = tmp_path / "dedupestream.zip"
    build(archive)

    command = [sys.executable, "-c", IMPORT, str(archive), *IMPORTED_BY_TASKS]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    ours = {name: file for name, file in found.items() if name.startswith("dedupe_")}
    assert set(IMPORTED_BY_TASKS) <= set(ours)
    assert all(file.startswith(str(archive)) for file in ours.values())
    assert not {"click", "jinja2", "matplotlib", "psycopg", "pydantic", "re2", "rich"} & set(found)


def test_the_archive_holds_python_of_these_packages_only_and_is_repeatable(tmp_path: Path) -> None:
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    build(first)
    build(second)

    with ZipFile(first) as archive:
        names = archive.namelist()
    assert {Path(name).parts[0] for name in names} == {
        "dedupe_crds",
        "dedupe_filters",
        "dedupe_ids",
        "dedupe_kafka",
        "dedupe_pipeline",
    }
    assert {Path(name).suffix for name in names} == {".py"}
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.zip", "second.zip"]
