"""Base of all results: models that are saved as JSON and never changed."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """An immutable model."""

    model_config = ConfigDict(frozen=True)
