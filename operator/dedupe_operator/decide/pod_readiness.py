"""Decide from its pod whether a worker is ready.

Rollout, failover and status call it."""

from dedupe_operator.kubernetes.names import Object


def is_ready(pod: Object | None) -> bool:
    """Return whether a pod is ready and is not being deleted."""
    if pod is None or pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
