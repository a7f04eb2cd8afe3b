"""Validation rules beyond types, for Python and for the API server.

The models in `dedupe_crds.spec` declare them, `dedupe_crds.errors` reports broken rules. Invariant: the CEL
expression in the generated CustomResourceDefinition and the Python check mean the same, and both show one message.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from reprlib import Repr
from typing import Any

from pydantic import (
    BaseModel,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
    field_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from dedupe_crds.quantity import format_duration, format_size, parse_duration, parse_size

VALIDATIONS = "x-kubernetes-validations"

_short = Repr()
_short.maxstring = _short.maxother = 80


def shown(value: object) -> str:
    """Write a value for an error: text is quoted, a long value is shortened."""
    return _short.repr(value)


@dataclass(frozen=True, kw_only=True)
class FieldRule:
    """A rule about a field, part of its `Annotated` type.

    Without `holds` it is about a change (CEL's `oldSelf`), which only the API server can check. `path` leads, in YAML
    names, to the field below to blame.
    """

    cel: str
    message: str
    holds: Callable[[Any], bool] | None = None
    write: Callable[[Any], str] = shown
    path: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(
        self, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Check the value after its type is validated."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Add the CEL rule to the schema of the type."""
        field = handler(schema)
        blamed = {"fieldPath": "." + ".".join(self.path)} if self.path else {}
        field[VALIDATIONS] = [
            *field.get(VALIDATIONS, []),
            {"rule": self.cel, "message": self.message, **blamed},
        ]
        return field

    def _check(self, value: object) -> object:
        if self.holds is not None and not self.holds(value):
            raise ValueError(f"{self.write(value)} {self.message}")
        return value


def matching(pattern: str, message: str) -> FieldRule:
    """Require text that matches `pattern` as a whole.

    The pattern must mean the same in RE2 and in Python.
    """
    return FieldRule(
        cel=f"self.matches('^({_escaped(pattern)})$')",
        message=message,
        holds=lambda text: re.fullmatch(pattern, text) is not None,
    )


def size_between(least: str, most: str) -> FieldRule:
    """Require a size within inclusive bounds."""
    low, high = parse_size(least), parse_size(most)
    return FieldRule(
        # The pattern refuses a text that is no quantity; this rule must not fail on it as well.
        cel="!isQuantity(string(self))"
        f" || quantity(string(self)).compareTo(quantity('{least}')) >= 0"
        f" && quantity(string(self)).compareTo(quantity('{most}')) <= 0",
        message=f"must be from {least} to {most}",
        holds=lambda size: low <= size <= high,
        write=lambda size: shown(format_size(size)),
    )


def duration_between(least: str, most: str) -> FieldRule:
    """Require a duration within inclusive bounds."""
    low, high = parse_duration(least), parse_duration(most)
    # CEL has no unit for days: its constants are in milliseconds.
    cel_low, cel_high = (f"duration('{d // parse_duration('1ms')}ms')" for d in (low, high))
    return FieldRule(
        cel=f"self >= {cel_low} && self <= {cel_high}",
        message=f"must be from {least} to {most}",
        holds=lambda duration: low <= duration <= high,
        write=lambda duration: shown(format_duration(duration)),
    )


def never_changes(what: str, instead: str = "create another stream instead") -> FieldRule:
    """Require that a field never changes after the creation of its object."""
    return FieldRule(cel="self == oldSelf", message=f"{what} never changes; {instead}")


class BrokenRuleError(ValueError):
    """Fields that are valid alone do not fit together.

    `path` leads, in YAML names, from their model to the field to blame; `value` is the value of that field.
    """

    def __init__(self, message: str, path: tuple[str, ...], value: object) -> None:
        super().__init__(message)
        self.path = path
        self.value = value


@dataclass(frozen=True, kw_only=True)
class ModelRule:
    """A rule about several fields of a model."""

    cel: str
    message: str
    path: tuple[str, ...]  # in YAML names, from the model to the field to blame


def rule(
    *fields: str, below: str = "", cel: str, message: str
) -> Callable[[Callable[..., bool]], Any]:
    """Declare a rule on a static method that takes the values of several fields.

    It runs if these fields are valid, even if others are not, so that a user sees all errors at once. `fields` are
    Python names; the last must be declared last in the model. The rule blames the last field, or the field at the
    dotted YAML path `below` it.
    """
    path = (to_camel(fields[-1]), *filter(None, [below]))

    def declare(holds: Callable[..., bool]) -> object:
        def check(cls: type[BaseModel], value: object, info: ValidationInfo) -> object:
            known = {**info.data, fields[-1]: value}
            if known.keys() >= set(fields) and not holds(*(known[field] for field in fields)):
                raise BrokenRuleError(message, path, _written(cls, fields[-1], value, path))
            return value

        check.rule = ModelRule(cel=cel, message=message, path=path)  # type: ignore[attr-defined] # functions take attributes
        return field_validator(fields[-1])(classmethod(check))

    return declare


def _written(model: type[BaseModel], field: str, value: object, path: tuple[str, ...]) -> object:
    """Return the value at a path below a field, in the form of a manifest."""
    instance = model.model_construct(None, **{field: value})
    written: Any = instance.model_dump(mode="json", by_alias=True, include={field})
    for name in path:
        written = written[name]
    return written


def _escaped(pattern: str) -> str:
    """Escape a regular expression for a CEL string."""
    return pattern.replace("\\", "\\\\").replace("'", "\\'")
