"""The chart's operator, as its probes and whoever scrapes it see it."""

import json

from tests.cluster.chart import NAMESPACE
from tests.e2e.support.kubectl import Kubectl, KubectlFailed, Object
from tests.support.patience import wait_for

DEPLOYMENT = "dedupestream-operator"

# An answer from a pod that is going may never come; who asks, asks again.
_ANSWER_SECONDS = 10.0
_SELECTOR = "app.kubernetes.io/name=dedupestream,app.kubernetes.io/component=operator"


class OperatorPods:
    """The operators in a namespace; that of the chart's own release if none is named."""

    def __init__(self, kubectl: Kubectl, namespace: str = NAMESPACE) -> None:
        self._kubectl = kubectl.within(namespace)
        self._namespace = namespace

    def all(self) -> list[Object]:
        """Their pods, those on their way out among them."""
        return self._kubectl.items("pods", _SELECTOR)

    def running(self) -> list[Object]:
        """Their pods, without those on their way out."""
        return [pod for pod in self.all() if not pod["metadata"].get("deletionTimestamp")]

    def wait_until_available(self) -> None:
        """Wait until the chart's Deployment is as it is wanted: no older pod is left, and the new ones are ready."""

        def is_available() -> bool:
            found = self._kubectl.get("deployment", DEPLOYMENT)
            wanted, status = found["spec"]["replicas"], found.get("status", {})
            counts = [
                status.get(f"{name}eplicas", 0)
                for name in ("r", "readyR", "updatedR", "availableR")
            ]
            current = status.get("observedGeneration") == found["metadata"]["generation"]
            return bool(current and counts == [wanted] * len(counts))

        wait_for(is_available, "the operator is available", poll_seconds=0.5)

    def starts(self) -> dict[str, int]:
        """How often each pod's process was started again."""
        return {
            pod["metadata"]["name"]: sum(
                one["restartCount"] for one in pod["status"].get("containerStatuses", [])
            )
            for pod in self.running()
        }

    def idle_seconds(self, pod: str) -> float:
        """The time since it looked at a stream last. Raises KubectlFailed if it is not healthy."""
        return float(json.loads(self._get(pod, "healthz"))["lastReconcileAgeSeconds"])

    def leads(self, pod: str) -> bool:
        """Whether a pod says that it is the one that acts; one that does not answer is not."""
        try:
            return "dedupe_operator_leader 1.0" in self._get(pod, "metrics")
        except KubectlFailed:
            return False

    def logs(self) -> str:
        """All that they have logged."""
        return self._kubectl("logs", "--selector", _SELECTOR, "--tail=-1")

    def _get(self, pod: str, path: str) -> str:
        proxy = f"/api/v1/namespaces/{self._namespace}/pods/{pod}:8080/proxy"
        return self._kubectl.raw(f"{proxy}/{path}", timeout_seconds=_ANSWER_SECONDS)
