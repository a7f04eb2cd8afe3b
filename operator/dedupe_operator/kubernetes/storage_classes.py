"""Read the StorageClasses of a stream's claims, each once a pass.

The reconciler makes a reader for each pass.
"""

from dataclasses import dataclass, field

from dedupe_operator.errors import KubernetesError
from dedupe_operator.kubernetes.api import KubernetesApi
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.kubernetes.resources import STORAGE_CLASSES


@dataclass(slots=True)
class StorageClasses:
    """The StorageClasses of one pass; a refusal is remembered as well."""

    api: KubernetesApi
    _read: dict[str, Object | KubernetesError | None] = field(default_factory=dict, init=False)

    def get(self, name: str) -> Object | None:
        """Return a StorageClass, None if it does not exist. Raises KubernetesError."""
        if name not in self._read:
            try:
                self._read[name] = self.api.get(STORAGE_CLASSES, None, name)
            except KubernetesError as error:
                self._read[name] = error
        found = self._read[name]
        if isinstance(found, KubernetesError):
            raise found
        return found
