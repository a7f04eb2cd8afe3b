"""The imports allowed inside the worker, where import-linter sees packages only."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import dedupe_ids
import dedupe_worker

WORKER = Path(dedupe_worker.__file__).parent
ROOMS = (Path(dedupe_ids.__file__).parent, WORKER / "dedup", WORKER / "store")
MODULES = sorted(module for room in ROOMS for module in room.rglob("*.py"))


def from_kafka_client(source: str) -> Iterator[str]:
    """The names that a module imports from confluent_kafka, with their module."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (n.name for n in names if n.name.split(".")[0] == "confluent_kafka")
            case ast.ImportFrom(module=str(module), names=names):
                if module.split(".")[0] == "confluent_kafka":
                    yield from (f"{module}.{name.name}" for name in names)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: "/".join(path.parts[-2:]))
def test_decisions_and_files_know_of_the_kafka_client_only_the_record_type(module: Path) -> None:
    assert set(from_kafka_client(module.read_text())) <= {"confluent_kafka.Message"}


def test_what_else_is_imported_is_found() -> None:
    source = (
        "import confluent_kafka\n"
        "from confluent_kafka import Message, Consumer\n"
        "from confluent_kafka.admin import AdminClient\n"
    )
    assert set(from_kafka_client(source)) == {
        "confluent_kafka",
        "confluent_kafka.Message",
        "confluent_kafka.Consumer",
        "confluent_kafka.admin.AdminClient",
    }
