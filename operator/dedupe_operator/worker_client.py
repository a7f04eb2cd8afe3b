"""What the workers say of themselves, asked over HTTP, all at once and each bounded in time."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv6Address, ip_address
from typing import Final

import httpx
from pydantic import ValidationError

from dedupe_crds.status.worker import WorkerStatus
from dedupe_operator.kubernetes.names import Object
from dedupe_operator.resources.pod_template import PORT

_ANSWER_SECONDS: Final = 2.0
_COMMAND_SECONDS: Final = 10.0  # a checkpoint waits for the end of a transaction
_AT_ONCE: Final = 16


class WorkerRefused(Exception):  # a fact about a request, as the errors of the whole project
    """A worker did not do what it was asked. `final`: asking again is of no use."""

    def __init__(self, reason: str, message: str, *, final: bool) -> None:
        super().__init__(message)
        self.reason = reason
        self.final = final


class Workers:
    """A worker that does not answer in time is None among the answers."""

    def __init__(self) -> None:
        self._http = httpx.Client(
            timeout=_ANSWER_SECONDS,
            trust_env=False,  # pods are reached directly, whatever proxy the operator has
            limits=httpx.Limits(max_connections=_AT_ONCE, max_keepalive_connections=0),
        )
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="ask-worker")

    def statuses(self, pods: Mapping[int, Object]) -> dict[int, WorkerStatus | None]:
        """The status of each partition whose pod has an address."""
        answers = self._threads.map(self._status, pods.values())
        return dict(zip(pods, answers, strict=True))

    def post(
        self, pod: Object | None, path: str, body: Mapping[str, object], admin_token: str
    ) -> object:
        """Ask something of one worker; returns its answer. Raises WorkerRefused."""
        url = _url(pod, path)
        if url is None:
            raise WorkerRefused("WorkerNotRunning", "the partition has no worker", final=False)
        try:
            answer = self._http.post(
                url,
                json=body,
                headers={"Authorization": f"Bearer {admin_token}"},
                timeout=_COMMAND_SECONDS,
            )
            said = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            message = f"the worker does not answer: {error}"
            raise WorkerRefused("WorkerNotReachable", message, final=False) from error
        if answer.is_success:
            return said
        told = said if isinstance(said, dict) else {}
        reason, message = str(told.get("title", "")), str(told.get("description", ""))
        # What is wrong with the request itself stays so; all else may pass.
        final = answer.status_code in {400, 404}
        raise WorkerRefused(
            _word(reason) or "WorkerRefused", message or reason or "no reason given", final=final
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._http.close()

    def _status(self, pod: Object) -> WorkerStatus | None:
        url = _url(pod, "/status")
        if url is None:
            return None
        try:
            answer = self._http.get(url)
            return WorkerStatus.model_validate_json(answer.raise_for_status().content)
        except (httpx.HTTPError, ValidationError):
            return None  # it starts, or it is busy; its probes tell Kubernetes which


def _url(pod: Object | None, path: str) -> str | None:
    """Where a worker answers; None if it has no address, or is on its way out."""
    address = ((pod or {}).get("status") or {}).get("podIP")
    if pod is None or not address or pod["metadata"].get("deletionTimestamp"):
        return None
    host = f"[{address}]" if isinstance(ip_address(address), IPv6Address) else address
    return f"http://{host}:{PORT}{path}"


def _word(title: str) -> str:
    """A title as one CamelCase word.

    >>> _word("Admin token needed"), _word("DiskFull")
    ('AdminTokenNeeded', 'DiskFull')
    """
    return "".join(part[:1].upper() + part[1:] for part in title.split())
