"""`python -m tests.support.kubernetes_schemas`: write the schemas of the supported versions again.

Each comes from the OpenAPI document in the Go module k8s.io/kubernetes, of the newest patch. Needs Go.
"""

import gzip
import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click

from tests.support.kubernetes_schemas.schemas import KINDS, MINORS, path_of

_MODULE: Final = "k8s.io/kubernetes"
_DOCUMENT: Final = "api/openapi-spec/swagger.json"
# Of a definition; the rest, descriptions above all, is not needed to check an object.
_KEPT: Final = ("type", "format", "properties", "required", "items", "additionalProperties", "$ref")
_PREFIX: Final = "#/definitions/"
_PROPS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
# OpenAPI 2 has no types for a choice, so the document leaves these open or names one of them.
_CHOICES: Final[dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["integer", "string"]},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["number", "string"]},
    f"{_PROPS}OrArray": {"$ref": _PREFIX + _PROPS},
    f"{_PROPS}OrBool": {"anyOf": [{"type": "boolean"}, {"$ref": _PREFIX + _PROPS}]},
}


@click.command()
def main() -> None:
    """Write the schemas of the supported versions of Kubernetes again."""
    for minor in MINORS:
        with TemporaryDirectory(prefix="kubernetes-") as cache:
            version, document = _fetch(minor, Path(cache))
        content = json.dumps({"version": version, **cut(document)}, sort_keys=True)
        # Without the time, so that equal content is an equal file.
        path_of(minor).write_bytes(gzip.compress(content.encode(), mtime=0))
        click.echo(f"{path_of(minor).name}: {version}, {path_of(minor).stat().st_size:,} bytes")


def cut(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definitions that objects of the kinds consist of, as strict JSON schemas."""
    definitions = document["definitions"]
    names = {
        f"{each['group']}/{each['version']}".lstrip("/") + f" {each['kind']}": name
        for name, definition in definitions.items()
        for each in definition.get("x-kubernetes-group-version-kind", ())
    }
    kinds = {kind: names[kind] for kind in KINDS}
    found: dict[str, Any] = {}
    waiting = list(kinds.values())
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = _CHOICES.get(name) or strict(definitions[name])
            waiting += _referenced(found[name])
    return {"kinds": kinds, "definitions": found}


def _fetch(minor: str, cache: Path) -> tuple[str, dict[str, Any]]:
    """Download a minor version's newest patch; return its number and its document."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", f"{_MODULE}@v{minor}"],  # noqa: S607 # any go
        cwd=cache,
        env=os.environ | {"GOMODCACHE": str(cache), "GOFLAGS": "-modcacherw"},
        check=True,
        stdout=subprocess.PIPE,
    )
    module = json.loads(done.stdout)
    return module["Version"], json.loads((Path(module["Dir"]) / _DOCUMENT).read_bytes())


def strict(schema: Any) -> Any:  # noqa: ANN401 # a part of a JSON document
    """Return a schema without descriptions; what has properties has no others."""
    kept = {name: schema[name] for name in _KEPT if name in schema}
    for name in ("items", "additionalProperties"):
        if name in kept:
            kept[name] = strict(kept[name])
    if "properties" in kept:
        kept["properties"] = {name: strict(each) for name, each in kept["properties"].items()}
        kept["additionalProperties"] = False
    return kept


def _referenced(schema: Any) -> Iterable[str]:  # noqa: ANN401 # likewise
    """Yield the names of the definitions that a schema refers to."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix(_PREFIX)
        for each in schema.values():
            yield from _referenced(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _referenced(each)


if __name__ == "__main__":
    main()
