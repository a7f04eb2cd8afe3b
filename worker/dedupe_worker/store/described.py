"""The facts about a store that follow from its newest metadata.

`rocksdb.Store` and `inverse_bloom.store.InverseBloomStore` derive from it.
"""

from abc import ABC, abstractmethod
from functools import cached_property

from dedupe_worker.origins import Origins
from dedupe_worker.store.ageing import Generation, window_seconds
from dedupe_worker.store.learnt import LearntOutputs
from dedupe_worker.store.metadata import KeptTexts, StoreMetadata


class DescribedStore(ABC):
    """A store with metadata."""

    @cached_property
    def origins(self) -> Origins:
        """Return the numbers of places; what is added is kept by the next `write`."""
        return Origins(self.metadata.origins if self.metadata else "")

    @cached_property
    def learnt(self) -> LearntOutputs:
        """Return what was learnt of other outputs; what is added is kept likewise."""
        return LearntOutputs(self.metadata.learnt if self.metadata else "")

    @property
    def kept_texts(self) -> KeptTexts:
        """Return what each `write` keeps in addition to ids and positions."""
        return KeptTexts(self.origins.text, self.learnt.text)

    @property
    @abstractmethod
    def metadata(self) -> StoreMetadata | None:
        """Return up to where the store is complete; None before the first write."""

    @abstractmethod
    def generations(self) -> list[Generation]:
        """Return the generations, oldest first."""

    def window_seconds(self, now_ms: int) -> float:
        """Return the age of the oldest id."""
        return window_seconds(self.generations(), now_ms)

    @property
    def reach(self) -> int:
        """Return the end of the output records that the ids are from."""
        return self.metadata.output_position if self.metadata else 0

    @property
    def forgotten_ms(self) -> int:
        """Return the newest timestamp of ids that are gone, Unix milliseconds; 0 if none."""
        return self.metadata.forgotten_ms if self.metadata else 0

    @property
    def aged_ms(self) -> int:
        """Return the last time of the clock by which ids age, in ms; 0 if unknown.

        A store of the release before has only the wall clock's.
        """
        latest = self.metadata
        return latest.aged_ms or latest.last_seen_ms if latest else 0
