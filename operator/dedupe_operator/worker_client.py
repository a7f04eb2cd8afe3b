"""HTTP client of the workers and routers: status of all at once, commands to one.

Who may create pods decides what answers there, so each answer has a bound on its size and a deadline for the whole of
it. The answers are read by one event loop: no thread waits for a worker that sends one byte a second. One that does not
answer in time is not asked again for a while, so that it does not hold up each pass over its stream. The reconciler and
the snapshot providers call it.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from threading import Thread
from typing import Any, Final, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from dedupe_crds.status.router import RouterStatus
from dedupe_crds.status.worker import WorkerStatus
from dedupe_operator.errors import ReportedError
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources.pod_parts import PORT

_ANSWER_SECONDS: Final = 2.0
_COMMAND_SECONDS: Final = 10.0  # a checkpoint waits for the end of a transaction
_DEADLINES_OF_A_STREAM: Final = 3
"""Deadlines of one answer that all answers of a stream may take together."""
_AT_ONCE: Final = 32
"""Processes of one stream that are asked at the same time."""
_FIRST_PAUSE_SECONDS: Final = 5.0
_LONGEST_PAUSE_SECONDS: Final = 60.0
# The largest is that of a router with all partitions of 11,000 topics: 1.1 MB.
_LONGEST_STATUS_BYTES: Final = 4 << 20
_STATUS_BYTES_OF_A_STREAM: Final = 16 << 20
_LONGEST_COMMAND_BYTES: Final = 1 << 20

_Status = TypeVar("_Status", bound=BaseModel)
_Result = TypeVar("_Result")


class WorkerRefused(ReportedError):
    """A worker did not carry out a command now; it may accept the same command later."""

    retriable = True


class CommandInvalid(WorkerRefused):
    """A worker will never carry out this command."""

    retriable = False


@dataclass(slots=True)
class _Bytes:
    """The bytes that the answers of one stream may still have."""

    left: int


@dataclass(slots=True)
class _Silent:
    """A pod that did not answer in time `times` times, and is asked again `at`."""

    at: float
    times: int


class WorkerClient:
    """Client of all workers. Safe to use from any thread.

    `clock` returns seconds and never goes backward.
    """

    def __init__(
        self,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        answer_seconds: float = _ANSWER_SECONDS,
    ) -> None:
        # One for all streams, because each client reads the certificates of the system.
        self._http = httpx.AsyncClient(
            transport=transport,
            timeout=_COMMAND_SECONDS,
            # Compressed answers are not read.
            headers={"Accept-Encoding": "identity"},
            trust_env=False,  # pods are reached directly, whatever proxy the operator has
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        )
        self._clock = clock
        self._answer_seconds = answer_seconds
        self._silent: dict[str, _Silent] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="ask-workers", daemon=True)
        self._thread.start()

    def statuses(self, pods: Mapping[int, Object]) -> dict[int, WorkerStatus | None]:
        """Return the status by partition; None for a worker that does not answer."""
        return self._await(self._ask(pods, WorkerStatus))

    def router_statuses(self, pods: Mapping[int, Object]) -> dict[int, RouterStatus | None]:
        """Return the status by router; None for a router that does not answer."""
        return self._await(self._ask(pods, RouterStatus))

    def post(
        self, pod: Object | None, path: str, body: Mapping[str, object], admin_token: str
    ) -> object:
        """Send a command to one worker; return its answer. Raises WorkerRefused."""
        url = _url(pod, path)
        if url is None:
            raise WorkerRefused("WorkerNotRunning", "the partition has no worker")
        try:
            answer = self._await(self._command(url, body, admin_token))
            content = answer.json()
        except (httpx.HTTPError, TimeoutError, _TooLong, ValueError) as error:
            # Without the error's text: who may create pods decides what answers.
            message = (
                "the worker does not answer as one: see its pod, and network policies (port 8080)"
            )
            raise WorkerRefused("WorkerNotReachable", message) from error
        if answer.is_success:
            return content
        refusal = content if isinstance(content, dict) else {}
        reason, message = str(refusal.get("title", "")), str(refusal.get("description", ""))
        # An invalid request stays invalid; any other refusal may be temporary.
        kind = CommandInvalid if answer.status_code in {400, 404} else WorkerRefused
        raise kind(_word(reason) or "WorkerRefused", message or reason or "no reason given")

    def close(self) -> None:
        """Stop asking."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_ANSWER_SECONDS)

    def _await(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _ask(
        self, pods: Mapping[int, Object], kind: type[_Status]
    ) -> dict[int, _Status | None]:
        """Ask the processes of one stream."""
        found: dict[int, _Status | None] = dict.fromkeys(pods)
        room, turns = _Bytes(_STATUS_BYTES_OF_A_STREAM), asyncio.Semaphore(_AT_ONCE)

        async def ask(number: int, pod: Object) -> None:
            async with turns:
                found[number] = await self._status(pod, kind, room)

        asked = [asyncio.create_task(ask(number, pod)) for number, pod in pods.items()]
        if asked:
            done, late = await asyncio.wait(
                asked, timeout=_DEADLINES_OF_A_STREAM * self._answer_seconds
            )
            for task in late:
                task.cancel()
            for task in done:
                task.result()  # an error that nobody foresaw
        return found

    async def _status(self, pod: Object, kind: type[_Status], room: _Bytes) -> _Status | None:
        url, uid = _url(pod, "/status"), str(pod["metadata"].get("uid"))
        silent = self._silent.get(uid)
        if url is None or (silent and self._clock() < silent.at):
            return None
        try:
            async with asyncio.timeout(self._answer_seconds):
                answer = await self._read(self._http.build_request("GET", url), room)
            self._silent.pop(uid, None)
            return kind.model_validate_json(answer.raise_for_status().content)
        except (TimeoutError, httpx.TimeoutException, _TooLong):
            self._note_silence(uid)
        except (httpx.HTTPError, ValidationError):
            pass  # it starts or is busy; its probes report which to Kubernetes
        return None

    def _note_silence(self, uid: str) -> None:
        now = self._clock()
        times = self._silent[uid].times if uid in self._silent else 0
        pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** min(times, 10))
        # Pods that are gone are never asked again, so they are forgotten after their time.
        self._silent = {
            key: each
            for key, each in self._silent.items()
            if now - each.at < _LONGEST_PAUSE_SECONDS
        }
        self._silent[uid] = _Silent(at=now + pause, times=times + 1)

    async def _command(
        self, url: str, body: Mapping[str, object], admin_token: str
    ) -> httpx.Response:
        headers = {"Authorization": f"Bearer {admin_token}"}
        request = self._http.build_request("POST", url, json=body, headers=headers)
        async with asyncio.timeout(_COMMAND_SECONDS):
            return await self._read(request, _Bytes(_LONGEST_COMMAND_BYTES))

    async def _read(self, request: httpx.Request, room: _Bytes) -> httpx.Response:
        """Return a whole answer. Raises httpx.HTTPError and _TooLong."""
        answer = await self._http.send(request, stream=True)
        try:
            content = bytearray()
            # Raw: a few kilobytes could be decompressed to gigabytes.
            async for part in answer.aiter_raw():
                content += part
                room.left -= len(part)
                if len(content) > _LONGEST_STATUS_BYTES or room.left < 0:
                    raise _TooLong("its answer is too long")
        finally:
            await answer.aclose()
        return httpx.Response(answer.status_code, content=bytes(content), request=request)


class _TooLong(Exception):
    """An answer has more bytes than any process of ours sends."""


def _url(pod: Object | None, path: str) -> str | None:
    """Return a worker's URL; None if its pod has no address or is being deleted."""
    address = ((pod or {}).get("status") or {}).get("podIP")
    if pod is None or not address or pod["metadata"].get("deletionTimestamp"):
        return None
    host = f"[{address}]" if isinstance(ip_address(address), IPv6Address) else address
    return f"http://{host}:{PORT}{path}"


def _word(title: str) -> str:
    """Return a title as one CamelCase word.

    >>> _word("Admin token needed"), _word("DiskFull")
    ('AdminTokenNeeded', 'DiskFull')
    """
    return "".join(part[:1].upper() + part[1:] for part in title.split())
