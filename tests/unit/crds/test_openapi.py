import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from dedupe_crds import generate
from dedupe_crds.manifest import ManifestError, parse_manifest
from dedupe_crds.openapi import CUSTOM_RESOURCES, SNAPSHOTS, STREAMS, CustomResource
from dedupe_crds.reference import reference_pages
from tests.unit.crds.manifests import BAD_MANIFESTS, MINIMAL, changed

Schema = dict[str, Any]

TYPES = {"object", "array", "string", "integer", "number", "boolean"}
ALLOWED = {
    "type", "format", "description", "default", "enum", "pattern", "minLength", "maxLength",
    "minimum", "maximum", "minItems", "maxItems", "maxProperties", "properties", "required",
    "items", "additionalProperties", "nullable", "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields", "x-kubernetes-list-type", "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
}  # fmt: skip
"""Of the keywords Kubernetes allows in a structural schema, those that are of use here."""


def children(node: Schema) -> Iterator[tuple[str, Schema]]:
    for name, field in node.get("properties", {}).items():
        yield f".{name}", field
    for keyword in ("items", "additionalProperties"):
        if keyword in node:
            yield f"[{keyword}]", node[keyword]


def walk(node: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, node
    for name, child in children(node):
        yield from walk(child, path + name)


def not_structural(path: str, node: Schema) -> Iterator[str]:
    """What Kubernetes' rules for structural schemas say against one node."""
    if unknown := node.keys() - ALLOWED:
        yield f"{path}: keywords {unknown}"
    if node.get("x-kubernetes-int-or-string"):
        if "type" in node:
            yield f"{path}: int-or-string has a type"
    elif node.get("type") not in TYPES:
        yield f"{path}: type is {node.get('type')}"
    if "properties" in node and "additionalProperties" in node:
        yield f"{path}: properties and additionalProperties"
    if node.get("type") == "array" and "items" not in node:
        yield f"{path}: array without items"
    if missing := set(node.get("required", ())) - node.get("properties", {}).keys():
        yield f"{path}: requires {missing}, which it has not"
    for key in node.get("x-kubernetes-list-map-keys", ()):
        if key not in node["items"]["required"]:
            yield f"{path}: list key {key} is not required"


def unsound_rules(path: str, node: Schema) -> Iterator[str]:
    """What Kubernetes' rules for CEL say against the rules of one node."""
    for rule in node.get("x-kubernetes-validations", ()):
        if "\n" in rule["message"] or not rule["message"].strip():
            yield f"{path}: a rule needs a message of one line"
        for field in re.findall(r"[sS]elf((?:\.\w+)*)\.matches\(", rule["rule"]):
            if "maxLength" not in below(node, field):
                yield f"{path}: a rule matches a text of any length, and may cost too much"
        if "fieldPath" in rule:
            yield from absent(path, node, rule["fieldPath"])


def below(node: Schema, field: str) -> Schema:
    """The node at a dotted path below another one."""
    for name in field.split(".")[1:]:
        node = node["properties"][name]
    return node


def absent(path: str, node: Schema, field_path: str) -> Iterator[str]:
    for name in field_path.split(".")[1:]:
        if name not in node.get("properties", {}):
            yield f"{path}: a rule blames {field_path}, which is not there"
            return
        node = node["properties"][name]


def mismatches(value: object, node: Schema, path: str) -> Iterator[str]:
    """What is wrong with a default, by the parts of the schema that defaults use."""
    kinds = {"object": dict, "string": str, "integer": int, "boolean": bool}
    if not isinstance(value, kinds.get(node.get("type", ""), str)):
        yield f"{path}: default {value!r} is not {node.get('type')}"
    if "pattern" in node and not re.search(node["pattern"], str(value)):
        yield f"{path}: default {value!r} does not match"
    if "enum" in node and value not in node["enum"]:
        yield f"{path}: default {value!r} is not allowed"
    if isinstance(value, dict):
        # The API server runs an object's rules on its default before it fills in more.
        fields = node["properties"]
        left_out = {name for name in fields if "default" in fields[name]} - value.keys()
        if left_out or value.keys() - fields.keys():
            yield f"{path}: default has not exactly the fields that have one: {value}"
        for name in value.keys() & fields.keys():
            yield from mismatches(value[name], fields[name], f"{path}.{name}")


@pytest.mark.parametrize("resource", CUSTOM_RESOURCES, ids=lambda resource: resource.kind)
def test_the_schema_is_structural(resource: CustomResource) -> None:
    nodes = list(walk(resource.schema()))
    assert [what for path, node in nodes for what in not_structural(path, node)] == []
    assert [what for path, node in nodes for what in unsound_rules(path, node)] == []


@pytest.mark.parametrize(
    ("node", "against"),
    [
        ({"$ref": "#/Window"}, "keywords"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "keywords"),
        ({"description": "untyped"}, "type is None"),
        ({"type": "string", "x-kubernetes-int-or-string": True}, "int-or-string has a type"),
        ({"type": "array"}, "array without items"),
        ({"type": "object", "required": ["name"]}, "requires {'name'}"),
    ],
)
def test_the_checker_sees_what_is_not_structural(node: Schema, against: str) -> None:
    assert any(against in what for what in not_structural("node", node))


def test_the_defaults_are_valid_and_complete() -> None:
    schemas = [resource.schema() for resource in CUSTOM_RESOURCES]
    found = [(path, node) for each in schemas for path, node in walk(each) if "default" in node]
    paths = {path for path, _ in found}
    assert {".spec.store", ".spec.store.window.maxBytes", ".spec.suspend"} <= paths
    assert {".spec.snapshots.deadline", ".spec.snapshots.s3.bandwidth", ".status.phase"} <= paths
    wrong = [what for path, node in found for what in mismatches(node["default"], node, path)]
    assert wrong == []


@pytest.mark.parametrize("resource", CUSTOM_RESOURCES, ids=lambda resource: resource.kind)
def test_every_field_is_described(resource: CustomResource) -> None:
    # Of metadata the API server itself has the description, and refuses another one.
    fields = [(path, node) for path, node in walk(resource.schema()) if path != ".metadata"]
    parts = ("[additionalProperties]", "[items]")
    described = [(path, node) for path, node in fields if not path.endswith(parts)]
    assert len(described) > 20
    assert [path for path, node in described if not is_sentence(node.get("description", ""))] == []


def is_sentence(text: str) -> bool:
    """Return whether it begins like a sentence, ends like one, and has no mark-up, line break or double space."""
    begins_well = text[:1].isupper() or text.startswith(("namespace/name", "endOffset"))
    return begins_well and text.endswith(".") and not re.search(r"[`\n]|  ", text)


def test_every_rule_of_the_api_server_is_a_refusal_in_python_of_the_same_field() -> None:
    told = set()
    for case in BAD_MANIFESTS:
        with pytest.raises(ManifestError) as refused:
            parse_manifest(changed(case.changes), "bad")
        told |= set(refused.value.problems)
    checked = 0
    for path, node in walk(STREAMS.schema()):
        for rule in node.get("x-kubernetes-validations", ()):
            if "oldSelf" in rule["rule"]:
                continue  # about a change, of which a manifest alone tells nothing
            field = (path + rule.get("fieldPath", "")).removeprefix(".").replace("[items]", ".0")
            matching = [
                line
                for line in told
                if line.startswith(f"{field}: ") and line.endswith(rule["message"])
            ]
            assert matching, f"no bad manifest breaks the rule of {field}: {rule['message']}"
            checked += 1
    assert checked >= 30


def guards(resource: CustomResource) -> dict[str, str]:
    """What each rule about a change says, by the path of its field."""
    return {
        path + rule.get("fieldPath", ""): rule["message"]
        for path, node in walk(resource.schema())
        for rule in node.get("x-kubernetes-validations", ())
        if "oldSelf" in rule["rule"]
    }


def test_what_must_never_change_is_guarded_and_nothing_else() -> None:
    fixed = {".spec.input.topic", ".spec.output.topic", ".spec.id", ".spec.storage.size"}
    stage = ("", ".by", ".partitions", ".topic", ".topic.name")
    fixed |= {f".spec.repartition{field}" for field in stage} | {".spec.input"}
    assert guards(STREAMS).keys() == fixed
    never = "the spec of a snapshot never changes; create another snapshot instead"
    assert guards(SNAPSHOTS) == {".spec": never}


@pytest.mark.parametrize(
    ("resource", "names", "wide"),
    [
        (
            STREAMS,
            ["Ready", "Reason", "Partitions", "Window", "Duplicates", "Lag", "Age"],
            ["Share", "Output", "Rollout", "Snapshots", "Message"],
        ),
        (
            SNAPSHOTS,
            ["Stream", "Phase", "Reason", "Provider", "Partitions", "Size", "Age"],
            ["Completed", "Message"],
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, CustomResource) else "",
)
def test_printer_columns_lead_to_fields_of_the_schema(
    resource: CustomResource, names: list[str], wide: list[str]
) -> None:
    (version,) = resource.definition()["spec"]["versions"]
    columns = version["additionalPrinterColumns"]
    assert [column["name"] for column in columns if not column.get("priority")] == names
    assert [column["name"] for column in columns if column.get("priority") == 1] == wide
    fields = dict(walk(version["schema"]["openAPIV3Schema"]))
    for column in columns:
        if column["name"] == "Age":
            continue  # of Kubernetes' own metadata
        field = fields[re.sub(r"\[\?.*?\]", "[items]", column["jsonPath"])]
        is_date = column["type"] == "date" and field["format"] == "date-time"
        assert is_date or field["type"] == column["type"], column["name"]


def test_the_generated_files_are_current() -> None:
    assert generate.differences(generate.ROOT) == []


def test_the_reference_tells_shares_from_whole_numbers() -> None:
    page = reference_pages(CUSTOM_RESOURCES)
    assert "| `spec.store.inverseBloom.retain` | number, 0.01 to 0.999 |" in page
    assert "| `spec.store.window.generations` | integer, 2 to 16 |" in page


def test_check_prints_what_differs_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    run = CliRunner()
    assert run.invoke(generate.main).exit_code == 0
    assert run.invoke(generate.main, ["--check"]).exit_code == 0
    definition = tmp_path / "crds/dedupestreams.dedupestream.io.yaml"
    definition.write_text(definition.read_text().replace("- dds", "- ddz"))
    result = run.invoke(generate.main, ["--check"])
    assert result.exit_code == 1
    assert "-    - ddz\n+    - dds\n" in result.stdout
    assert "make generate" in result.stderr


@pytest.mark.parametrize("resource", CUSTOM_RESOURCES, ids=lambda resource: resource.kind)
def test_the_generated_definition_is_the_one_that_was_built(resource: CustomResource) -> None:
    text = generate.generated_files()[f"crds/{resource.plural}.dedupestream.io.yaml"]
    assert yaml.safe_load(text) == resource.definition()


def test_the_minimal_manifest_has_just_what_the_schema_requires() -> None:
    spec = STREAMS.schema()["properties"]["spec"]
    assert set(spec["required"]) == MINIMAL["spec"].keys()
