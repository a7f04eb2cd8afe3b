"""No exception of the client library leaves a call of it without a reason and a place."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

import dedupe_filters
import dedupe_growth
import dedupe_kafka
import dedupe_local
import dedupe_pipeline
import dedupe_router
import dedupe_worker
from dedupe_kafka.client import calling
from dedupe_kafka.errors import BrokerUnavailable, ClientFailed, Fenced, Stopped

PACKAGES = (
    dedupe_filters,
    dedupe_growth,
    dedupe_kafka,
    dedupe_local,
    dedupe_pipeline,
    dedupe_router,
    dedupe_worker,
)
# Without its extension dedupe_native can't be imported.
NATIVE = Path(__file__).parents[3] / "native"
MODULES = sorted(
    path
    for folder in (NATIVE, *(Path(each) for package in PACKAGES for each in package.__path__))
    for path in folder.rglob("*.py")
)
CALLS = {
    name
    for client in (Consumer, Producer, AdminClient)
    for name in dir(client)
    if not name.startswith("_")
}
# How a client is named, here and in the tests' stand-ins. Not `reader` and the like, which are of this project.
CLIENTS = {"admin", "client", "consumer", "producer"}


class Calls:
    """Finds the calls of a module that are outside of `calling`.

    A function that is called by name inside of it only is inside.
    """

    def __init__(self, module: Path) -> None:
        self.module = module
        self.tree = ast.parse(module.read_text())
        self.parents = {
            child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)
        }

    def outside(self) -> Iterator[str]:
        for node in ast.walk(self.tree):
            if (
                isinstance(node, ast.Attribute)
                and self.is_of_client(node)
                and not self.is_inside(node)
            ):
                yield f"{self.module.name}:{node.lineno}: {ast.unparse(node)}"

    def is_of_client(self, node: ast.Attribute) -> bool:
        owner = node.value
        name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
        if isinstance(owner, ast.Call) and ast.unparse(owner.func) == "super":
            return False
        return node.attr in CALLS and name.lstrip("_") in CLIENTS

    def is_inside(self, node: ast.AST, seen: frozenset[str] = frozenset()) -> bool:
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, ast.With) and any(
                _is_calling(at.context_expr) for at in node.items
            ):
                return True
            if isinstance(node, ast.FunctionDef):
                if any(map(_is_calling, node.decorator_list)) and not _yields(node):
                    return True
                return node.name not in seen and self.is_called_inside(
                    node.name, seen | {node.name}
                )
        return False

    def is_called_inside(self, name: str, seen: frozenset[str]) -> bool:
        calls = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Attribute | ast.Name) and _name(node) == name
        ]
        private = name.startswith("_") and not name.startswith("__")
        return private and bool(calls) and all(self.is_inside(each, seen) for each in calls)


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_calling(made: ast.AST) -> bool:
    return isinstance(made, ast.Call) and _name(made.func) in WRAPPERS


def _yields(function: ast.FunctionDef) -> bool:
    """Return whether the body runs after the call, outside of what decorates it."""
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))


def wrappers(module: Path) -> Iterator[str]:
    """The functions that return `calling`; other modules inherit them."""
    for node in ast.walk(ast.parse(module.read_text())):
        match node:
            case ast.FunctionDef(name=name, body=[ast.Return(value=ast.Call(func=made))]) if (
                _name(made) == "calling"
            ):
                yield name


WRAPPERS = {"calling", *(name for module in MODULES for name in wrappers(module))}


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_each_call_of_the_library_is_named(module: Path) -> None:
    assert list(Calls(module).outside()) == []


@pytest.mark.parametrize(
    "text",
    [
        "consumer.poll(1)",
        "def f(self): self._producer.flush()",
        "def f(self): send = self._producer.produce",
        "def _f(admin): admin.poll(0)\ndef g(admin): _f(admin)",
        "with suppress(KafkaException): consumer.close()",
        "@calling('x')\ndef f(consumer): yield consumer.poll(1)",
    ],
)
def test_a_call_outside_is_found(text: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(text)
    assert len(list(Calls(module).outside())) == 1


@pytest.mark.parametrize(
    "text",
    [
        "with calling('x'): consumer.poll(1)",
        "def _f(admin): admin.poll(0)\ndef g(admin):\n  with calling('x'): _f(admin)",
        "with self._reading(): self._consumer.poll(1)",
        "@calling('x')\ndef f(consumer): consumer.poll(1)",
        "reader.poll(1)",
    ],
)
def test_a_call_inside_is_not(text: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(text)
    assert list(Calls(module).outside()) == []


@pytest.mark.parametrize(
    "error", [SystemError("NULL"), RuntimeError("Consumer closed"), TypeError("x")]
)
def test_what_the_library_does_not_name_gets_a_reason_and_a_place(error: Exception) -> None:
    said = rf"^reading in/3: .*{type(error).__name__}: {error}"
    with pytest.raises(ClientFailed, match=said), calling("reading in/3"):
        raise error


def test_an_error_of_kafka_is_named() -> None:
    with pytest.raises(BrokerUnavailable, match=r"^reading in/3: "), calling("reading in/3"):
        raise KafkaException(KafkaError(KafkaError.REQUEST_TIMED_OUT))


@pytest.mark.parametrize("error", [Fenced("x"), Stopped("x"), BufferError("full")])
def test_what_callers_know_is_passed_on(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, calling("reading in/3"):
        raise error
    assert raised.value is error
