"""Write the reference page from the schema: fields, types, defaults, meanings."""

from collections.abc import Iterable, Iterator

from dedupe_crds.openapi import CustomResource, Schema
from dedupe_crds.rules import VALIDATIONS
from dedupe_crds.spec.stream import API_VERSION

INTRODUCTION = """\
# Reference

Sizes are Kubernetes quantities (`8Gi`, `500M`, `1024`). Durations are whole numbers of `w`, `d`,
`h`, `m`, `s` and `ms`, and sums of them (`4w`, `28d`, `1h30m`, `25ms`). Unknown fields are refused.
"""


def reference_pages(resources: Iterable[CustomResource]) -> str:
    """Return a page in Markdown for all kinds of objects."""
    return "\n".join([INTRODUCTION, *map(_part, resources)])


def _part(resource: CustomResource) -> str:
    schema = resource.schema()
    fields = schema["properties"]
    about = resource.model.__doc__ or ""
    parts = [f"## {resource.kind}\n", f"`apiVersion: {API_VERSION}`. {about}\n"]
    name = fields["metadata"]["properties"]["name"]
    if VALIDATIONS in name:
        rule = name[VALIDATIONS][0]["message"]
        parts.append(f"`metadata.name` {rule}; at most {name['maxLength']} characters.\n")
    spec: Schema = fields.get("spec", {})
    if spec:
        rows = _spec_rows("spec", spec)
        parts += ["### spec\n", _table(("Field", "Type", "Default", "Meaning"), rows)]
    if rules := list(_rule_rows("spec", spec)):
        parts += [
            "### Rules between fields\n",
            "`kubectl apply`, `dedupe validate` and the workers refuse a manifest that breaks one.\n",
            _table(("Field", "Rule"), iter(rules)),
        ]
    parts += [
        "### status\n",
        "Written by the operator.\n",
        _table(("Field", "Type", "Meaning"), _status_rows("status", fields["status"])),
    ]
    return "\n".join(parts)


def _walk(path: str, schema: Schema) -> Iterator[tuple[str, Schema, bool]]:
    """Yield path, schema and whether it is required of each field below `path`."""
    for name, field in schema.get("properties", {}).items():
        inner = f"{path}.{name}"
        yield inner, field, name in schema.get("required", ())
        yield from _walk(inner, field)
        yield from _walk(f"{inner}[]", field.get("items", {}))


def _spec_rows(path: str, schema: Schema) -> Iterator[tuple[str, ...]]:
    for field_path, field, required in _walk(path, schema):
        meaning = [field["description"]]
        meaning += [_sentence(rule["message"]) for rule in _own_rules(field)]
        default = "*required*" if required else _default(field)
        yield f"`{field_path}`", _type(field), default, " ".join(meaning)


def _status_rows(path: str, schema: Schema) -> Iterator[tuple[str, ...]]:
    for field_path, field, _ in _walk(path, schema):
        yield f"`{field_path}`", _type(field), field["description"]


def _rule_rows(path: str, schema: Schema) -> Iterator[tuple[str, ...]]:
    for model_path, model, _ in ((path, schema, True), *_walk(path, schema)):
        for rule in model.get(VALIDATIONS, ()):
            if "fieldPath" in rule:
                yield f"`{model_path}{rule['fieldPath']}`", rule["message"]


def _own_rules(field: Schema) -> Iterator[Schema]:
    return (rule for rule in field.get(VALIDATIONS, ()) if "fieldPath" not in rule)


def _type(field: Schema) -> str:
    if "enum" in field:
        return ", ".join(f"`{choice}`" for choice in field["enum"])
    if "minimum" in field and "maximum" in field:
        return f"{field['type']}, {field['minimum']} to {field['maximum']}"
    if field.get("x-kubernetes-int-or-string"):
        return "size"
    if field.get("x-kubernetes-preserve-unknown-fields"):
        return "as Kubernetes defines it"
    if of := field.get("additionalProperties"):
        return "map of quantities" if of.get("x-kubernetes-int-or-string") else "map of texts"
    names = {"duration": "duration", "date-time": "time"}
    return names.get(field.get("format", ""), str(field["type"]))


def _default(field: Schema) -> str:
    default = field.get("default")
    if default is None or "properties" in field:
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _sentence(message: str) -> str:
    return message[0].upper() + message[1:] + "."


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = (head, ("---",) * len(head), *rows)
    return "".join(
        f"| {' | '.join(cell.replace('|', r'&#124;') for cell in row)} |\n" for row in lines
    )
