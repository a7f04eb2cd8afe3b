"""Model of the CPU and memory of a container.

`dedupe_crds.spec.worker` and `dedupe_crds.spec.repartition` use it.
"""

from typing import Annotated

from pydantic import Field

from dedupe_crds.base import Model
from dedupe_crds.quantity import ResourceQuantity, parse_size

ResourceList = Annotated[dict[str, ResourceQuantity], Field(max_length=32)]


class Resources(Model):
    """Kubernetes resource requirements of a container."""

    requests: ResourceList = Field(default={}, description="Resources that are reserved.")
    limits: ResourceList = Field(default={}, description="Resources that it may use at most.")

    @property
    def memory_limit(self) -> int | None:
        """Return the bytes of memory that it may use.

        It is None without a limit, and for a limit in thousandths of a byte.
        """
        try:
            return parse_size(self.limits["memory"])
        except (KeyError, ValueError):
            return None
