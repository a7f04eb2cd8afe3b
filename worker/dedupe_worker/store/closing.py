"""Close a store at the end of a session. `Session` calls it."""

from contextlib import closing
from types import TracebackType
from typing import Final

from dedupe_kafka.errors import Fenced, Stopped
from dedupe_worker.store.api import IdStore

# Stores whose files belong to another worker now. They stay open until the process ends, which is at once.
_left_open: Final[list[IdStore]] = []


def close_store(
    store: IdStore,
    kind: type[BaseException] | None,
    _: BaseException | None,
    __: TracebackType | None,
) -> None:
    """Close a session's store, after a flush unless the session failed.

    It stays open if another worker has taken over: closing writes.
    """
    if kind is not None and issubclass(kind, Fenced):
        _left_open.append(store)
        return
    with closing(store):
        if kind is None or issubclass(kind, Stopped):
            store.flush()
