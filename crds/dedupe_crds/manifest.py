"""Reading a manifest: a YAML file in, a `DedupeStream` or everything that is wrong with it out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from dedupe_crds.errors import explain
from dedupe_crds.rules import shown
from dedupe_crds.spec.stream import API_VERSION, KIND, DedupeStream


class ManifestError(ValueError):
    """A manifest that cannot be used. `problems` says each thing that is wrong, in one line."""

    def __init__(self, source: str, problems: list[str]) -> None:
        super().__init__("\n".join(f"{source}: {problem}" for problem in problems))
        self.problems = tuple(problems)


def load_manifest(path: Path) -> DedupeStream:
    """Read the one DedupeStream in a YAML file; other kinds beside it are left alone.

    Raises:
        ManifestError: the file cannot be read, is not YAML, or holds no single valid DedupeStream.
    """
    source = str(path)
    return parse_manifest(_only_stream(read_yaml(path), source), source)


def read_yaml(path: Path) -> list[Any]:
    """Read the documents of a YAML file; a field that is written twice is an error.

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
        # The loader lets a date such as 2026-02-31 and a text nested too deep fail in Python's way.
        raise ManifestError(source, [_yaml_problem(error)]) from error


def parse_manifest(document: object, source: str) -> DedupeStream:
    """Check one document, such as an object from the API server; `source` names it in errors.

    Raises:
        ManifestError: it is not a valid DedupeStream.
    """
    if problems := _wrong_kind(document):
        raise ManifestError(source, problems)
    try:
        # A manifest has YAML names only, as the API server knows no others.
        return DedupeStream.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ManifestError(source, explain(error, document, DedupeStream)) from error


def _wrong_kind(document: object) -> list[str]:
    """Another kind of object is wrong as a whole: its fields need no errors of their own."""
    if not isinstance(document, Mapping):
        return []
    return [
        f"{field}: {shown(document[field]) if field in document else 'is missing and'} "
        f"must be {wanted}"
        for field, wanted in (("apiVersion", API_VERSION), ("kind", KIND))
        if document.get(field) != wanted
    ]


def _only_stream(documents: list[Any], source: str) -> object:
    """The only document, or among several the only one of our kind."""
    if len(documents) == 1:
        return documents[0]
    streams = [
        document
        for document in documents
        if isinstance(document, Mapping) and document.get("kind") == KIND
    ]
    if len(streams) == 1:
        return streams[0]
    found = ", ".join(_title(document) for document in documents) or "nothing"
    raise ManifestError(source, [f"needs exactly one {KIND} ({API_VERSION}); found: {found}"])


def _title(document: object) -> str:
    if not isinstance(document, Mapping):
        return f"a document that is {type(document).__name__}, not a mapping"
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f"{document.get('kind', 'no kind')} {name or 'without a name'}"


def _yaml_problem(error: Exception) -> str:
    """One line, with the place a person can go to."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        why = ", ".join(filter(None, (error.context, error.problem)))
        return f"line {mark.line + 1}, column {mark.column + 1}: is not valid YAML: {why}"
    return f"is not valid YAML: {' '.join(str(error).split())}"


class _Loader(yaml.SafeLoader):
    """Refuses a field written twice, of which plain YAML loading keeps the last without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"field {key.value!r} is written twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)
