"""Base class of what processes report over HTTP: readers ignore unknown fields."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Report(BaseModel):
    """A part of a report. Python names are snake_case, JSON names camelCase."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )
