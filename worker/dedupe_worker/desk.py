"""Carries out what HTTP callers ask of the store, on the loop's thread, between two transactions."""

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dedupe_crds.worker_status import CheckpointStatus, UploadStatus
from dedupe_worker.board import Board
from dedupe_worker.checkpoint import make_checkpoint
from dedupe_worker.config import WorkerConfig
from dedupe_worker.identity import Identity
from dedupe_worker.ids import pack_id
from dedupe_worker.store import Store

if TYPE_CHECKING:
    from dedupe_worker.s3.keeper import SnapshotKeeper


class Desk:
    """The commands of one session's store; see commands.py."""

    def __init__(
        self,
        config: WorkerConfig,
        identity: Identity,
        store: Store,
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

    def forget(self, raw_ids: list[bytes]) -> int:
        """Forget ids; returns how many were remembered."""
        return self._store.forget([pack_id(raw) for raw in raw_ids])
