"""What a manifest must satisfy beyond types, said once for Python and for the API server.

A rule has a CEL expression, which goes into the generated CustomResourceDefinition, a Python check
that means the same, and one sentence that both show. They stand side by side so that they change
together. `dedupe_crds.spec.stream` declares the rules, `dedupe_crds.errors` tells of broken ones.
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
    """Write a value as an error shows it: text quoted, and shortened if it is long."""
    return _short.repr(value)


@dataclass(frozen=True, kw_only=True)
class FieldRule:
    """A rule about one field, put into its `Annotated` type.

    Without `holds` it is about a change (CEL's `oldSelf`), which only the API server sees.
    """

    cel: str
    says: str
    holds: Callable[[Any], bool] | None = None
    write: Callable[[Any], str] = shown

    def __get_pydantic_core_schema__(
        self, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Check the value after its type is known to be right."""
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Add the CEL rule beside what the type says of itself."""
        field = handler(schema)
        field[VALIDATIONS] = [*field.get(VALIDATIONS, []), {"rule": self.cel, "message": self.says}]
        return field

    def _check(self, value: object) -> object:
        if self.holds is not None and not self.holds(value):
            raise ValueError(f"{self.write(value)} {self.says}")
        return value


def matching(pattern: str, says: str) -> FieldRule:
    """Text of one shape; `pattern` covers the whole text and means the same in RE2 and Python."""
    return FieldRule(
        cel=f"self.matches('^({_escaped(pattern)})$')",
        says=says,
        holds=lambda text: re.fullmatch(pattern, text) is not None,
    )


def size_between(least: str, most: str) -> FieldRule:
    """Bytes within bounds, both allowed."""
    low, high = parse_size(least), parse_size(most)
    return FieldRule(
        # A text that is no quantity is refused by its pattern; this rule must not fail on it too.
        cel="!isQuantity(string(self))"
        f" || quantity(string(self)).compareTo(quantity('{least}')) >= 0"
        f" && quantity(string(self)).compareTo(quantity('{most}')) <= 0",
        says=f"must be from {least} to {most}",
        holds=lambda size: low <= size <= high,
        write=lambda size: shown(format_size(size)),
    )


def duration_between(least: str, most: str) -> FieldRule:
    """A length of time within bounds, both allowed."""
    low, high = parse_duration(least), parse_duration(most)
    # CEL writes no days: its constants are in milliseconds.
    cel_low, cel_high = (f"duration('{d // parse_duration('1ms')}ms')" for d in (low, high))
    return FieldRule(
        cel=f"self >= {cel_low} && self <= {cel_high}",
        says=f"must be from {least} to {most}",
        holds=lambda duration: low <= duration <= high,
        write=lambda duration: shown(format_duration(duration)),
    )


def never_changes(what: str, instead: str = "make another stream instead") -> FieldRule:
    """A field that is given once, with its object."""
    return FieldRule(cel="self == oldSelf", says=f"{what} never changes; {instead}")


class BrokenRuleError(ValueError):
    """Fields that are valid each on its own do not fit together.

    `path` leads in YAML names from their model to the field to blame, `value` is what that holds.
    """

    def __init__(self, says: str, path: tuple[str, ...], value: object) -> None:
        super().__init__(says)
        self.path = path
        self.value = value


@dataclass(frozen=True, kw_only=True)
class ModelRule:
    """A rule about several fields of one model."""

    cel: str
    says: str
    path: tuple[str, ...]  # in YAML names, from the model to the field to blame


def rule(
    *fields: str, below: str = "", cel: str, says: str
) -> Callable[[Callable[..., bool]], Any]:
    """Declare a rule about several fields of a model on a static method that takes their values.

    It runs whenever these fields are valid, whatever is wrong elsewhere, so that a user sees all
    errors at once. `fields` are Python names, the last one declared last in the model; the rule
    blames that one, or what is at the dotted YAML path `below` it.
    """
    path = (to_camel(fields[-1]), *filter(None, [below]))

    def declare(holds: Callable[..., bool]) -> object:
        def check(cls: type[BaseModel], value: object, info: ValidationInfo) -> object:
            known = {**info.data, fields[-1]: value}
            if known.keys() >= set(fields) and not holds(*(known[field] for field in fields)):
                raise BrokenRuleError(says, path, _written(cls, fields[-1], value, path))
            return value

        check.rule = ModelRule(cel=cel, says=says, path=path)  # type: ignore[attr-defined] # functions take attributes
        return field_validator(fields[-1])(classmethod(check))

    return declare


def _written(model: type[BaseModel], field: str, value: object, path: tuple[str, ...]) -> object:
    """What is at a path that begins with a field of this value, as a manifest would write it."""
    instance = model.model_construct(None, **{field: value})
    written: Any = instance.model_dump(mode="json", by_alias=True, include={field})
    for name in path:
        written = written[name]
    return written


def _escaped(pattern: str) -> str:
    """Write a regular expression inside a CEL text."""
    return pattern.replace("\\", "\\\\").replace("'", "\\'")
