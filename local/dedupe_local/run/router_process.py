"""Supervise one router process. The fleet calls it."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from dedupe_crds.status.router import RouterStatus
from dedupe_local.run.supervised_process import SupervisedProcess
from dedupe_local.state_dir import StateDir


@dataclass(frozen=True, kw_only=True)
class RouterView:
    """One router as seen from outside at one moment.

    `routed` counts records since the fleet's start, over all of its processes; the rest is as of `WorkerView`.
    """

    router: int
    pid: int | None = None
    status: RouterStatus | None = None
    restarts: int = 0
    routed: int = 0
    last_exit: str | None = None

    @property
    def warnings(self) -> list[str]:
        """Return what is not as wanted although the router runs."""
        found = self.status.warnings if self.status else {}
        return [f"{reason}: {text}" for reason, text in found.items()]


class RouterProcess(SupervisedProcess[RouterStatus]):
    """A router and its successors. Any thread may read `view`."""

    def __init__(
        self,
        number: int,
        state: StateDir,
        http: httpx.Client,
        kafka_properties: Path | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.number = number
        self._state = state
        self._kafka_properties = kafka_properties
        self._earlier_routed = self._routed = 0
        directory = state.router(number)
        super().__init__(f"router {number}", directory, http, log="router.log", clock=clock)

    def publish(self) -> None:
        """Make the present state visible as `view`."""
        self.view = RouterView(
            router=self.number,
            pid=self.pid,
            status=self.status,
            restarts=self.restarts,
            routed=self._earlier_routed + self._routed,
            last_exit=self.last_exit,
        )

    def command(self) -> list[str | Path]:
        """Return the command line of the router."""
        properties = self._kafka_properties
        return [
            *(sys.executable, "-m", "dedupe_router"),
            *("--config", self._state.manifest),
            *("--router", str(self.number)),
            *("--http", "127.0.0.1:0"),
            *("--endpoint-file", self.endpoint),
            *(("--kafka-properties", properties) if properties else ()),
        ]

    def read_status(self, body: bytes) -> RouterStatus:
        """Parse a router's status."""
        return RouterStatus.model_validate_json(body)

    def is_ready(self, status: RouterStatus) -> bool:
        """Return whether the router is a member of the group, and routes."""
        return status.ready

    def count(self, status: RouterStatus) -> None:
        """Take its counter."""
        self._routed = status.counts.routed

    def close_counts(self) -> None:
        """Add its last counter to the total."""
        self._earlier_routed += self._routed
        self._routed = 0
