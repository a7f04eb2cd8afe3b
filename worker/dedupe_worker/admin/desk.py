"""Carries out what HTTP callers ask of the store, on the loop's thread, between two transactions."""

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dedupe_crds.status.worker import CheckpointStatus, IdOwner, IdStatus, UploadStatus
from dedupe_ids.extract import pack_id
from dedupe_worker.config import WorkerConfig
from dedupe_worker.status import Board
from dedupe_worker.store.ageing import Generation
from dedupe_worker.store.api import IdStore
from dedupe_worker.store.checkpoint import make_checkpoint
from dedupe_worker.store.state_dir import Identity
from dedupe_worker.values import OWNER_BYTES, decode_owner, timestamp_of

if TYPE_CHECKING:
    from dedupe_worker.snapshots.upload_manager import SnapshotKeeper


class Desk:
    """The commands of one session's store; see commands.py."""

    def __init__(
        self,
        config: WorkerConfig,
        identity: Identity,
        store: IdStore,
        board: Board,
        keeper: "SnapshotKeeper | None",
    ) -> None:
        self._config = config
        self._identity = identity
        self._store = store
        self._board = board
        self._keeper = keeper

    def checkpoint(self) -> CheckpointStatus | None:
        """Write a checkpoint, in place of the one before; UploadRunning is raised while that is being uploaded."""
        if self._keeper:
            self._keeper.refuse_while_uploading()
        began = time.perf_counter()
        try:
            made = make_checkpoint(
                self._config.state, self._identity, self._store, datetime.now(UTC)
            )
        finally:  # the loop stood still for it
            self._board.stage_seconds["checkpoint"] += time.perf_counter() - began
        self._board.checkpoint = made or self._board.checkpoint
        return made

    def snapshot(self, name: str) -> UploadStatus | None:
        """Write a checkpoint and begin its upload, unless that was done; None while the store is still empty."""
        assert self._keeper is not None  # noqa: S101 (the call is refused before it comes here)
        known = self._keeper.known(name)
        if known:
            return known
        made = self.checkpoint()
        return self._keeper.begin(name, made) if made else None

    def lookup(self, raw_ids: list[bytes]) -> list[IdStatus]:
        """What is known of ids, in their order."""
        packed = [pack_id(raw) for raw in raw_ids]
        known = self._store.locate(packed)
        return [_id_status(raw, known.get(one)) for raw, one in zip(raw_ids, packed, strict=True)]

    def forget(self, raw_ids: list[bytes]) -> int:
        """Forget ids; returns how many were remembered."""
        forgotten = self._store.forget([pack_id(raw) for raw in raw_ids])
        self._store.settle()  # there is no log from which a crash would have it again
        return forgotten


def _id_status(raw: bytes, found: tuple[bytes, Generation] | None) -> IdStatus:
    if found is None:
        return IdStatus(id=raw.decode(), known=False)
    value, generation = found
    at = decode_owner(value[:OWNER_BYTES])
    return IdStatus(
        id=raw.decode(),
        known=True,
        owner=IdOwner(partition=at[0], offset=at[1]) if at else None,
        timestamp=_time(timestamp_of(value)),
        generation=generation.name,
        seen_after=_time(generation.first_seen_ms),
        seen_before=_time(generation.last_seen_ms),
    )


def _time(milliseconds: int | None) -> datetime | None:
    if milliseconds is None:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
