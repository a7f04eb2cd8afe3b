"""What the workers say of themselves, asked over HTTP, all at once and each bounded in time."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv6Address, ip_address
from typing import Final

import httpx
from pydantic import ValidationError

from dedupe_crds.worker_status import WorkerStatus
from dedupe_operator.children.pod_template import PORT
from dedupe_operator.labels import Object

_ANSWER_SECONDS: Final = 2.0
_AT_ONCE: Final = 16


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

    def close(self) -> None:
        """Let go of the connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._http.close()

    def _status(self, pod: Object) -> WorkerStatus | None:
        address = (pod.get("status") or {}).get("podIP")
        if not address or pod["metadata"].get("deletionTimestamp"):
            return None
        host = f"[{address}]" if isinstance(ip_address(address), IPv6Address) else address
        try:
            answer = self._http.get(f"http://{host}:{PORT}/status")
            return WorkerStatus.model_validate_json(answer.raise_for_status().content)
        except (httpx.HTTPError, ValidationError):
            return None  # it starts, or it is busy; its probes tell Kubernetes which
