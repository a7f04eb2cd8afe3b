"""Base class of the manifest models: frozen, camelCase in YAML, no unknown fields."""

from typing import Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from dedupe_crds.rules import VALIDATIONS, ModelRule


class Model(BaseModel):
    """A part of a manifest. Python names are snake_case, YAML names camelCase."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        validate_default=True,  # a rule between fields holds for a field left to its default too
    )

    @classmethod
    def rules(cls) -> list[ModelRule]:
        """Return the rules between this model's fields, in the order of declaration."""
        checks = cls.__pydantic_decorators__.field_validators.values()
        return [check.func.rule for check in checks if hasattr(check.func, "rule")]

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Add the rules, and the defaults in the form of a manifest."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        defaults = cls.model_construct().model_dump(mode="json", by_alias=True, warnings=False)
        for name, field in schema.get("properties", {}).items():
            if name in defaults:
                field["default"] = defaults[name]
        if rules := cls.rules():
            schema[VALIDATIONS] = [
                {"rule": rule.cel, "message": rule.message, "fieldPath": "." + ".".join(rule.path)}
                for rule in rules
            ]
        return schema


def keyed_by(key: str) -> dict[str, Any]:
    """Return the schema of a list whose items server-side apply merges by a field."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
