"""What the worker asks of a store of ids, whatever it is made of.

`store.Store` and `inverse_bloom.store.InverseBloomStore` are such; their methods say what each does.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dedupe_worker.store.ageing import Bounds, Generation
from dedupe_worker.store.bloom_filter import Hashes
from dedupe_worker.store.metadata import Stamp


class IdStore(Protocol):
    """The remembered ids of one partition. Used from one thread; raises StoreCorrupt, DiskFull or StoreFailed."""

    bounds: Bounds

    @property
    def stamp(self) -> Stamp | None: ...  # noqa: D102 (see store.py)
    @property
    def reach(self) -> int: ...  # noqa: D102
    @property
    def forgotten_ms(self) -> int: ...  # noqa: D102
    def generations(self) -> list[Generation]: ...  # noqa: D102
    def window_seconds(self, now_ms: int) -> float: ...  # noqa: D102
    def suspects(self, hashes: Hashes) -> NDArray[np.bool_]: ...  # noqa: D102
    def lookup(self, ids: Sequence[bytes], hashes: Hashes) -> dict[bytes, bytes]: ...  # noqa: D102
    def locate(self, ids: Sequence[bytes]) -> dict[bytes, tuple[bytes, Generation]]: ...  # noqa: D102
    def positions(self) -> list[tuple[str, int | None]]: ...  # noqa: D102
    def ids(self, generation: str) -> Iterator[bytes]: ...  # noqa: D102
    def refill(self, seconds: float) -> bool: ...  # noqa: D102
    def prepare(self, hashes: Hashes) -> None: ...  # noqa: D102
    def write(  # noqa: D102
        self,
        ids: Sequence[bytes],
        owners: Sequence[bytes],
        *,
        output_position: int,
        input_offset: int,
        seen_ms: int,
        newest_ms: int | None = None,
    ) -> None: ...
    def mark_truncated(self) -> None: ...  # noqa: D102
    def mark_forgotten(self, newest_ms: int) -> None: ...  # noqa: D102
    def forget(self, ids: Sequence[bytes]) -> int: ...  # noqa: D102
    def amend(  # noqa: D102
        self, generation: str, *, added: Sequence[bytes] = (), removed: Sequence[bytes] = ()
    ) -> None: ...
    def settle(self) -> None: ...  # noqa: D102
    def age(self, now_ms: int) -> bool: ...  # noqa: D102
    def flush(self) -> None: ...  # noqa: D102
    def checkpoint(self, path: Path) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102
