"""Carries out what HTTP callers ask of the store, on the loop's thread, between two transactions."""

from datetime import UTC, datetime

from dedupe_crds.worker_status import CheckpointStatus
from dedupe_worker.board import Board
from dedupe_worker.checkpoint import make_checkpoint
from dedupe_worker.config import WorkerConfig
from dedupe_worker.identity import Identity
from dedupe_worker.ids import pack_id
from dedupe_worker.store import Store


class Desk:
    """The commands of one session's store; see commands.py."""

    def __init__(
        self, config: WorkerConfig, identity: Identity, store: Store, board: Board
    ) -> None:
        self._config = config
        self._identity = identity
        self._store = store
        self._board = board

    def checkpoint(self) -> CheckpointStatus | None:
        """Write a checkpoint."""
        made = make_checkpoint(self._config.state, self._identity, self._store, datetime.now(UTC))
        self._board.checkpoint = made or self._board.checkpoint
        return made

    def forget(self, raw_ids: list[bytes]) -> int:
        """Forget ids; returns how many were remembered."""
        return self._store.forget([pack_id(raw) for raw in raw_ids])
