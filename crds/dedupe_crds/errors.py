"""Turn pydantic's errors into sentences for the author of a manifest.

`dedupe_crds.manifest` calls it. Invariant: each sentence begins with the path of the field in YAML, then names the
value, the problem and what is allowed.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from dedupe_crds.rules import BrokenRuleError, shown

Path = tuple[str, ...]


def explain(error: ValidationError, document: object, model: type[BaseModel]) -> list[str]:
    """Return a sentence for each error of a `document` validated against `model`."""
    return [_sentence(detail, document, model) for detail in error.errors(include_url=False)]


def written(path: Path) -> str:
    """Write the path of a field: dotted, with brackets around names with dots."""
    if not path:
        return "the document"
    parts = (f"[{name}]" if "." in name or "/" in name else f".{name}" for name in path)
    return "".join(parts).removeprefix(".")


def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return a model's fields by their names in YAML."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model that a field holds, or None if it holds a value."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Annotated, Union, UnionType):
        return next(filter(None, map(model_in, get_args(annotation))), None)
    return None


def _sentence(detail: ErrorDetails, document: object, model: type[BaseModel]) -> str:
    path: Path = tuple(str(part) for part in detail["loc"] if part != "[key]")
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, BrokenRuleError):
        path = (*path[:-1], *cause.path)
        return f"{written(path)}: {_broken(cause, is_default=not _is_written(document, path))}"
    if isinstance(cause, ValueError):
        return f"{written(path)}: {cause}"
    parent = _model_at(model, path[:-1])
    if detail["type"] == "extra_forbidden":
        return f"{written(path)}: {_unknown(path, parent, model)}"
    field = fields_of(parent).get(path[-1]) if parent and path else None
    return f"{written(path)}: {SENTENCES.get(detail['type'], _as_pydantic_writes)(detail, field)}"


def _broken(cause: BrokenRuleError, *, is_default: bool) -> str:
    if cause.value is None:
        return str(cause)
    return f"{shown(cause.value)}{' (the default)' if is_default else ''} {cause}"


def _unknown(path: Path, parent: type[BaseModel] | None, root: type[BaseModel]) -> str:
    """Name the field that was probably meant: a near name, or this name elsewhere."""
    allowed = fields_of(parent) if parent else {}
    near = [written((*path[:-1], name)) for name in get_close_matches(path[-1], allowed, n=1)]
    near = near or [written(known) for known in _paths(root) if known[-1] == path[-1]]
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"unknown field{meant}; allowed here: {', '.join(allowed)}"


def _paths(model: type[BaseModel]) -> Iterator[Path]:
    for name, field in fields_of(model).items():
        yield (name,)
        if inner := model_in(field.annotation):
            yield from ((name, *path) for path in _paths(inner))


def _model_at(model: type[BaseModel], path: Path) -> type[BaseModel] | None:
    current: type[BaseModel] | None = model
    for name in path:
        field = fields_of(current).get(name) if current else None
        current = model_in(field.annotation) if field else None
    return current


def _is_written(document: object, path: Path) -> bool:
    for name in path:
        if not isinstance(document, Mapping) or name not in document:
            return False
        document = document[name]
    return True


def _got(detail: ErrorDetails) -> str:
    return "no value" if detail["input"] is None else shown(detail["input"])


def _as_pydantic_writes(detail: ErrorDetails, _: FieldInfo | None) -> str:
    return f"{_got(detail)}: {detail['msg']}"


def _missing(_: ErrorDetails, field: FieldInfo | None) -> str:
    return f"is required: {field.description}" if field else "is required"


def _not_text(detail: ErrorDetails, _: FieldInfo | None) -> str:
    is_scalar = not isinstance(detail["input"], list | dict | None)
    return f"{_got(detail)} is not text{'; put it in quotes if it is text' * is_scalar}"


def _not_a_choice(detail: ErrorDetails, _: FieldInfo | None) -> str:
    choices = re.findall(r"'([^']*)'", detail["ctx"]["expected"])
    by_lower = {choice.lower(): choice for choice in choices}
    near = get_close_matches(str(detail["input"]).lower(), by_lower, n=1)
    meant = f"; did you mean {by_lower[near[0]]}?" if near else ""
    return f"{_got(detail)} is not allowed{meant}; allowed: {', '.join(choices)}"


_ENDS = {"ge": "least", "le": "most"}


def _out_of_bounds(detail: ErrorDetails, field: FieldInfo | None) -> str:
    known = field.metadata if field else []
    least = next((bound.ge for bound in known if hasattr(bound, "ge")), None)
    most = next((bound.le for bound in known if hasattr(bound, "le")), None)
    if least is None or most is None:  # of an item in a list
        name, bound = next(iter(detail["ctx"].items()))
        return f"{_got(detail)} is out of bounds; allowed: at {_ENDS[name]} {bound}"
    return f"{_got(detail)} is out of bounds; allowed: {least} to {most}"


def _too_long(detail: ErrorDetails, _: FieldInfo | None) -> str:
    return f"{_got(detail)} is too long; allowed: at most {detail['ctx']['max_length']} characters"


def _too_short(detail: ErrorDetails, _: FieldInfo | None) -> str:
    if not detail["input"]:
        return "is empty; write a value or leave the field out"
    return (
        f"{_got(detail)} is too short; allowed: at least {detail['ctx']['min_length']} characters"
    )


def _is_not(what: str) -> Callable[[ErrorDetails, FieldInfo | None], str]:
    return lambda detail, _: f"{_got(detail)} is not {what}"


SENTENCES: dict[str, Callable[[ErrorDetails, FieldInfo | None], str]] = {
    "missing": _missing,
    "enum": _not_a_choice,
    "literal_error": _not_a_choice,
    "greater_than_equal": _out_of_bounds,
    "less_than_equal": _out_of_bounds,
    "string_too_long": _too_long,
    "string_too_short": _too_short,
    "too_short": _too_short,
    "too_long": lambda detail, _: f"has more than {detail['ctx']['max_length']} entries",
    "string_type": _not_text,
    "invalid_key": _is_not("a field name; put it in quotes if it is a name"),
    "int_type": _is_not("a whole number"),
    "float_type": _is_not("a number with a point, such as 0.9"),
    "bool_type": _is_not("true or false"),
    "dict_type": _is_not("a mapping of names to values"),
    "list_type": _is_not("a list"),
    "model_type": _is_not("a mapping of fields"),
}
"""The sentence for each type of error that these models can have."""
