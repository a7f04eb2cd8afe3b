"""HTTP client of the workers and routers: status of all at once, commands to one.

Every call has a timeout. The reconciler and the snapshot providers call it.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv6Address, ip_address
from typing import Final, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from dedupe_crds.status.router import RouterStatus
from dedupe_crds.status.worker import WorkerStatus
from dedupe_operator.errors import ReportedError
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources.pod_parts import PORT

_ANSWER_SECONDS: Final = 2.0
_COMMAND_SECONDS: Final = 10.0  # a checkpoint waits for the end of a transaction
_AT_ONCE: Final = 16

_Status = TypeVar("_Status", bound=BaseModel)


class WorkerRefused(ReportedError):
    """A worker did not carry out a command now; it may accept the same command later."""

    retriable = True


class CommandInvalid(WorkerRefused):
    """A worker will never carry out this command."""

    retriable = False


class WorkerClient:
    """Client of all workers. Safe to use from any thread."""

    def __init__(self) -> None:
        self._http = httpx.Client(
            timeout=_ANSWER_SECONDS,
            trust_env=False,  # pods are reached directly, whatever proxy the operator has
            limits=httpx.Limits(max_connections=_AT_ONCE, max_keepalive_connections=0),
        )
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="ask-worker")

    def statuses(self, pods: Mapping[int, Object]) -> dict[int, WorkerStatus | None]:
        """Return the status by partition; None for a worker that does not answer."""
        return self._ask(pods, WorkerStatus)

    def router_statuses(self, pods: Mapping[int, Object]) -> dict[int, RouterStatus | None]:
        """Return the status by router; None for a router that does not answer."""
        return self._ask(pods, RouterStatus)

    def post(
        self, pod: Object | None, path: str, body: Mapping[str, object], admin_token: str
    ) -> object:
        """Send a command to one worker; return its answer. Raises WorkerRefused."""
        url = _url(pod, path)
        if url is None:
            raise WorkerRefused("WorkerNotRunning", "the partition has no worker")
        try:
            answer = self._http.post(
                url,
                json=body,
                headers={"Authorization": f"Bearer {admin_token}"},
                timeout=_COMMAND_SECONDS,
            )
            content = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            message = f"the worker does not answer: {error}"
            raise WorkerRefused("WorkerNotReachable", message) from error
        if answer.is_success:
            return content
        refusal = content if isinstance(content, dict) else {}
        reason, message = str(refusal.get("title", "")), str(refusal.get("description", ""))
        # An invalid request stays invalid; any other refusal may be temporary.
        kind = CommandInvalid if answer.status_code in {400, 404} else WorkerRefused
        raise kind(_word(reason) or "WorkerRefused", message or reason or "no reason given")

    def close(self) -> None:
        """Close the connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._http.close()

    def _ask(self, pods: Mapping[int, Object], kind: type[_Status]) -> dict[int, _Status | None]:
        answers = self._threads.map(lambda pod: self._status(pod, kind), pods.values())
        return dict(zip(pods, answers, strict=True))

    def _status(self, pod: Object, kind: type[_Status]) -> _Status | None:
        url = _url(pod, "/status")
        if url is None:
            return None
        try:
            answer = self._http.get(url)
            return kind.model_validate_json(answer.raise_for_status().content)
        except (httpx.HTTPError, ValidationError):
            return None  # it starts or is busy; its probes report which to Kubernetes


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
