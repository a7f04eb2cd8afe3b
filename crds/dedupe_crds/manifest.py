"""Read a manifest: return a `DedupeStream`, or an error with all its problems."""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from pydantic import ValidationError

from dedupe_crds.base import Model
from dedupe_crds.errors import explain
from dedupe_crds.rules import shown
from dedupe_crds.spec.stream import API_VERSION, KIND, DedupeStream

_DEEPEST: Final = 100

M = TypeVar("M", bound=Model)


class ManifestError(ValueError):
    """A manifest that cannot be used. `problems` has a line for each problem."""

    def __init__(self, source: str, problems: list[str]) -> None:
        super().__init__("\n".join(f"{source}: {problem}" for problem in problems))
        self.problems = tuple(problems)


def load_manifest(path: Path) -> DedupeStream:
    """Read the only DedupeStream in a YAML file, and ignore objects of other kinds.

    Raises:
        ManifestError: the file cannot be read, is not YAML, or holds no single valid DedupeStream.
    """
    source = str(path)
    return parse_manifest(_only_stream(read_yaml(path), source), source)


def read_yaml(path: Path) -> list[Any]:
    """Read the documents of a YAML file; a duplicate field is an error.

    Raises:
        ManifestError: the file cannot be read, or is not YAML.
    """
    source = str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ManifestError(source, [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ManifestError(source, [f"is not UTF-8 text: byte {error.start} is not"]) from error
    try:
        return [document for document in yaml.load_all(text, _Loader) if document is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # For a date such as 2026-02-31 or too deep nesting, the loader raises Python's errors.
        raise ManifestError(source, [_yaml_problem(error)]) from error


def parse_manifest(document: object, source: str) -> DedupeStream:
    """Check a document, such as an object from the API server.

    `source` names it in errors.

    Raises:
        ManifestError: it is not a valid DedupeStream.
    """
    return parse_object(document, source, DedupeStream, KIND)


def parse_object(document: object, source: str, model: type[M], kind: str) -> M:
    """Check a document that must be of a kind.

    Raises:
        ManifestError: it is not a valid object of that kind.
    """
    if problems := _wrong_kind(document, kind) or _too_deep(document):
        raise ManifestError(source, problems)
    try:
        # Only YAML names are valid, as for the API server.
        return model.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ManifestError(source, explain(error, document, model)) from error


def _wrong_kind(document: object, kind: str) -> list[str]:
    """Return the problems of an object of another kind; its fields are not checked."""
    if not isinstance(document, Mapping):
        return []
    return [
        f"{field}: {shown(document[field]) if field in document else 'is missing and'} "
        f"must be {wanted}"
        for field, wanted in (("apiVersion", API_VERSION), ("kind", kind))
        if document.get(field) != wanted
    ]


def _too_deep(document: object) -> list[str]:
    """Return the problem of a document that libraries would refuse to write as JSON."""
    level = [document]
    for _ in range(_DEEPEST):
        mappings = [each.values() for each in level if isinstance(each, Mapping)]
        level = [*chain(*mappings, *(each for each in level if isinstance(each, list)))]
        if not level:
            return []
    return [f"is nested deeper than {_DEEPEST} levels"]


def _only_stream(documents: list[Any], source: str) -> object:
    """Return the only document, or the only DedupeStream among several."""
    if len(documents) == 1:
        return documents[0]
    streams = [
        document
        for document in documents
        if isinstance(document, Mapping) and document.get("kind") == KIND
    ]
    if len(streams) == 1:
        return streams[0]
    found = ", ".join(title(document) for document in documents) or "nothing"
    raise ManifestError(source, [f"needs exactly one {KIND} ({API_VERSION}); found: {found}"])


def title(document: object) -> str:
    """Return the kind and the name of a document, for messages."""
    if not isinstance(document, Mapping):
        return f"a document that is {type(document).__name__}, not a mapping"
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f"{document.get('kind', 'no kind')} {name or 'without a name'}"


def _yaml_problem(error: Exception) -> str:
    """Describe the error in a line, with its place in the file."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        why = ", ".join(filter(None, (error.context, error.problem)))
        return f"line {mark.line + 1}, column {mark.column + 1}: is not valid YAML: {why}"
    return f"is not valid YAML: {' '.join(str(error).split())}"


class _Loader(yaml.SafeLoader):
    """Refuses duplicate fields, of which plain YAML loading silently takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"field {key.value!r} is written twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)
