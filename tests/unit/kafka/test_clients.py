"""Nothing in worker and router makes a Kafka client around `Clients`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

import dedupe_kafka.clients
import dedupe_router
import dedupe_worker
from dedupe_kafka.bounded_producer import BoundedProducer

MODULES = {
    path.relative_to(folder.parent).as_posix(): path
    for folder in map(
        Path, (*dedupe_kafka.__path__, *dedupe_router.__path__, *dedupe_worker.__path__)
    )
    for path in folder.rglob("*.py")
}
_CLIENTS = {"Consumer", "Producer", "BoundedProducer", "AdminClient"}


def makes_a_client(module: Path) -> Iterator[str]:
    """Every place at which a module calls one of the client library's classes, or has `made` call it."""
    for node in ast.walk(ast.parse(module.read_text())):
        if not isinstance(node, ast.Call):
            continue
        made = node.args[:1] if isinstance(node.func, ast.Name) and node.func.id == "made" else []
        for each in (node.func, *made):
            if isinstance(each, ast.Name) and each.id in _CLIENTS:
                yield f"{module.name}:{node.lineno}: {each.id}"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_process_makes_its_clients_through_the_seam(name: str) -> None:
    assert list(makes_a_client(MODULES[name])) == []


def test_a_module_that_makes_a_client_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("made(Consumer, {})\nProducer({})\n")
    assert len(list(makes_a_client(module))) == 2


def test_the_clients_are_the_library_s() -> None:
    made_by = dedupe_kafka.clients.CLIENTS
    assert (made_by.consumer, made_by.producer, made_by.admin) == (
        Consumer,
        BoundedProducer,
        AdminClient,
    )
    assert issubclass(BoundedProducer, Producer)
