"""Build CustomResourceDefinitions with a structural OpenAPI v3 schema.

They are built from the models; `dedupe_crds.generate` writes them.
Kubernetes takes a subset of JSON Schema: no references, no null types, every node typed
(https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/).
"""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from dedupe_crds.rules import VALIDATIONS
from dedupe_crds.spec.stream import GROUP, KIND, VERSION, DedupeStream
from dedupe_crds.status.partitions import KIND as PARTITIONS_KIND
from dedupe_crds.status.partitions import DedupeStreamPartitions, PartitionsStatus
from dedupe_crds.status.snapshot import KIND as SNAPSHOT_KIND
from dedupe_crds.status.snapshot import DedupeSnapshot, SnapshotStatus
from dedupe_crds.status.stream import StreamStatus

Schema = dict[str, Any]

# Kubernetes' keywords that the models use, in the order of the generated file.
_KEYWORDS = (
    "description",
    "type",
    "format",
    "x-kubernetes-int-or-string",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "maxProperties",
    "default",
    "required",
    "properties",
    "additionalProperties",
    "x-kubernetes-preserve-unknown-fields",
    "items",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    VALIDATIONS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomResource:
    """A kind of object.

    `columns` of `kubectl get` are (name, type, JSONPath); `wide_columns` are those that only `-o wide` adds. A kind
    without a spec has no subresource, so that one request creates an object with its status, and no category.
    """

    kind: str
    model: type[BaseModel]
    status: type[BaseModel]
    short_name: str
    columns: tuple[tuple[str, str, str], ...]
    wide_columns: tuple[tuple[str, str, str], ...] = ()

    @property
    def plural(self) -> str:
        """Return its name in URLs and on the command line."""
        return f"{self.kind.lower().removesuffix('s')}s"

    @property
    def has_spec(self) -> bool:
        """Return whether users write it."""
        return "spec" in self.model.model_fields

    def definition(self) -> dict[str, Any]:
        """Return the whole CustomResourceDefinition, as `kubectl apply` takes it."""
        columns = [_column(*column) for column in self.columns]
        columns += [{**_column(*column), "priority": 1} for column in self.wide_columns]
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{self.plural}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {
                    "kind": self.kind,
                    "listKind": f"{self.kind}List",
                    "plural": self.plural,
                    "singular": self.kind.lower(),
                    "shortNames": [self.short_name],
                    **({"categories": ["dedupe"]} if self.has_spec else {}),
                },
                "versions": [
                    {
                        "name": VERSION,
                        "served": True,
                        "storage": True,
                        **({"subresources": {"status": {}}} if self.has_spec else {}),
                        "additionalPrinterColumns": columns,
                        "schema": {"openAPIV3Schema": self.schema()},
                    }
                ],
            },
        }

    def schema(self) -> Schema:
        """Return the schema for the API server, with the status."""
        schema = structural_schema(self.model)
        name = schema["properties"]["metadata"]["properties"]["name"]
        schema["properties"] |= {
            **{
                name: {"description": schema["properties"][name]["description"], "type": "string"}
                for name in ("apiVersion", "kind")
            },
            # Of metadata a schema may restrict the name only; all else is Kubernetes' own.
            "metadata": {"type": "object", "properties": {"name": name}},
            "status": structural_schema(self.status),
        }
        schema["required"] = ["spec" if self.has_spec else "status"]
        return schema


def _column(name: str, type_: str, path: str) -> dict[str, Any]:
    return {"name": name, "type": type_, "jsonPath": path}


def _condition(type_: str) -> str:
    return f'.status.conditions[?(@.type=="{type_}")]'


STREAMS = CustomResource(
    kind=KIND,
    model=DedupeStream,
    status=StreamStatus,
    short_name="dds",
    columns=(
        ("Ready", "string", f"{_condition('Ready')}.status"),
        ("Reason", "string", ".status.reason"),
        ("Partitions", "string", ".status.partitionsReady"),
        ("Window", "string", ".status.window"),
        ("Duplicates", "integer", ".status.duplicates"),
        ("Lag", "integer", ".status.lagMessages"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ),
    wide_columns=(
        ("Share", "string", ".status.duplicatesShare"),
        ("Output", "string", ".spec.output.topic"),
        ("Rollout", "string", f"{_condition('Progressing')}.reason"),
        ("Snapshots", "string", f"{_condition('SnapshotsHealthy')}.reason"),
        ("Message", "string", f"{_condition('Ready')}.message"),
    ),
)
SNAPSHOTS = CustomResource(
    kind=SNAPSHOT_KIND,
    model=DedupeSnapshot,
    status=SnapshotStatus,
    short_name="ddsnap",
    columns=(
        ("Stream", "string", ".spec.streamRef.name"),
        ("Phase", "string", ".status.phase"),
        ("Reason", "string", ".status.reason"),
        ("Provider", "string", ".status.provider"),
        ("Partitions", "string", ".status.progress"),
        ("Size", "string", ".status.size"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ),
    wide_columns=(
        ("Completed", "date", ".status.completed"),
        ("Message", "string", ".status.message"),
    ),
)
PARTITIONS = CustomResource(
    kind=PARTITIONS_KIND,
    model=DedupeStreamPartitions,
    status=PartitionsStatus,
    short_name="ddp",
    columns=(
        ("Partitions", "string", ".status.partitionsReady"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ),
)
CUSTOM_RESOURCES = (STREAMS, SNAPSHOTS, PARTITIONS)
PLURAL = STREAMS.plural
SNAPSHOT_PLURAL = SNAPSHOTS.plural
PARTITIONS_PLURAL = PARTITIONS.plural


def structural_schema(model: type[BaseModel]) -> Schema:
    """Return the self-contained schema of a model, with its rules and defaults."""
    # In serialization mode the defaults are text; in validation mode they may be numbers.
    schema = model.model_json_schema(mode="serialization")
    return _structural(schema, schema.get("$defs", {}))


def _structural(node: Schema, models: dict[str, Schema]) -> Schema:
    node = _inlined(node, models)
    node.pop("title", None)
    if "const" in node:
        node["enum"] = [node.pop("const")]
    if node.get("type") == "integer":
        node["format"] = "int64"
    if node.get("additionalProperties") is False:
        del node["additionalProperties"]  # Kubernetes refuses unknown fields anyway
    elif node.get("additionalProperties") is True:
        del node["additionalProperties"]
        node["x-kubernetes-preserve-unknown-fields"] = True
    if (default := _without_nothing(node.pop("default", None))) is not None:
        node["default"] = default
    for inner in ("items", "additionalProperties"):
        if inner in node:
            node[inner] = _structural(node[inner], models)
    if "properties" in node:
        fields = node["properties"].items()
        node["properties"] = {name: _structural(field, models) for name, field in fields}
    if unknown := node.keys() - set(_KEYWORDS):
        raise NotImplementedError(f"no structural schema for {sorted(unknown)} in {node}")
    return {keyword: node[keyword] for keyword in _KEYWORDS if keyword in node}


def _inlined(node: Schema, models: dict[str, Schema]) -> Schema:
    """Replace a reference by its model, and an optional field by its type.

    Keywords next to the reference are those of the field and take precedence; rules are added.
    """
    node = {keyword: value for keyword, value in node.items() if keyword != "$defs"}
    if "$ref" in node:
        base = models[node.pop("$ref").rpartition("/")[2]]
    elif "anyOf" in node:
        (base,) = (option for option in node.pop("anyOf") if option != {"type": "null"})
    else:
        return node
    rules = [*base.get(VALIDATIONS, []), *node.pop(VALIDATIONS, [])]
    return _inlined(base, models) | node | ({VALIDATIONS: rules} if rules else {})


def _without_nothing(value: Any) -> Any:  # noqa: ANN401 # a value of any JSON type
    """Return a default without nulls, empty maps and empty lists.

    The rest is written in full: the API server checks an object's default against the object's rules before it adds
    the defaults of the object's fields.
    """
    if not isinstance(value, dict):
        return None if value == [] else value
    parts = {name: _without_nothing(part) for name, part in value.items()}
    return {name: part for name, part in parts.items() if part is not None} or None
